#!/usr/bin/python3
# situations: root user
# limit: 600 s
"""Repositories of every kind, and what is in the middle of something: taken
over, or held back by name."""
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from box import case, check, equal, main, within
from repository import git, plant, promote, result, sound, told, work


@case
def a_rebase_is_told_as_a_rewritten_branch(box):
    plant(box)
    git(box, 'checkout', '-q', '-b', 'topic')
    for n in '12':
        box.write(n, n)
        git(box, 'add', '.')
        git(box, 'commit', '-q', '-m', f'topic {n}')
    git(box, 'checkout', '-q', 'main')
    box.write('m', 'm')
    git(box, 'add', '.')
    git(box, 'commit', '-q', '-m', 'main 2')
    work(box, 'git checkout -q topic; git rebase -q main; git checkout -q main;'
              'git status --short')
    r = promote(box)
    within(r.out.decode(), 'M  topic: rewritten, 3 commits in place of 2, ')
    equal(git(box, 'log', '--format=%s', 'topic'),
          'topic 2\ntopic 1\nmain 2\nfirst')
    equal(git(box, 'status', '--short'), '')
    sound(box)


@case
def in_the_middle_of_a_merge_what_is_checked_out_stays(box):
    plant(box)
    git(box, 'branch', 'side')
    work(box, '''echo 1 >a; git commit -qam one; git checkout -q side
        echo 2 >a; git commit -qam two; git merge -q main || true
        test -f .git/MERGE_HEAD''')
    found = told(box, status=1)
    equal(result(found, 'HEAD')[0], 'conflict')
    within(result(found, 'HEAD')[1], 'the task is in the middle of a merge')
    equal(git(box, 'symbolic-ref', 'HEAD'), 'refs/heads/main')
    sound(box)


@case
def a_repository_of_sha256_is_taken_over_too(box):
    plant(box, '--object-format=sha256')
    work(box, 'echo 2 >>a; git commit -qam two; git tag -a -m t t; '
              'echo 3 >>a; git stash -q')
    promote(box)
    equal(git(box, 'status', '--short'), '')
    equal(len(git(box, 'rev-parse', 'HEAD')), 64)
    git(box, 'stash', 'pop', '-q')
    sound(box)


@case
def clones_that_share_or_lack_objects_are_taken_over(box):
    plant(box)
    git(box, 'commit', '-q', '--allow-empty', '-m', 'second')
    base = f'{box.home}/base'
    os.rename(box.source, base)
    for how in (('--shared', base), ('--depth=1', f'file://{base}')):
        subprocess.run(['rm', '-rf', box.source], check=True)
        git(box, 'clone', '-q', *how, box.source, cwd=box.home)
        work(box, 'echo 2 >>a; git commit -qam third', '--read', base)
        promote(box)
        equal(git(box, 'status', '--short'), '', how)
        equal(git(box, 'log', '--format=%s').split('\n')[:2],
              ['third', 'second'])
        sound(box)


@case
def a_working_tree_of_the_host_keeps_its_branch(box):
    plant(box)
    git(box, 'branch', 'side')
    git(box, 'worktree', 'add', '-q', f'{box.top}/linked', 'side')
    work(box, 'git update-ref refs/heads/side "$(git commit-tree -m x HEAD^{tree})"; '
              'git commit -q --allow-empty -m two')
    found = told(box, status=1)
    equal(result(found, 'refs/heads/side')[0], 'conflict')
    within(result(found, 'refs/heads/side')[1], '"linked"')
    equal(result(found, 'refs/heads/main')[0], 'promoted')
    equal(git(box, 'status', '--short', cwd=f'{box.top}/linked'), '')


@case
def a_name_in_the_way_is_a_conflict(box):
    plant(box)
    git(box, 'branch', 'x')
    git(box, 'branch', 'p/q')
    git(box, 'pack-refs', '--all')
    git(box, 'branch', 'y')
    work(box, 'for b in x y p/q; do git branch -qD $b; done; git branch x/1; '
              'git branch y/1; git branch p')
    found = told(box, status=1)
    for name in ('x/1', 'y/1', 'p'):
        equal(result(found, f'refs/heads/{name}')[0], 'conflict', name)
        within(result(found, f'refs/heads/{name}')[1], 'in its way')
    sound(box)


@case
def a_rename_across_a_directory_comes_whole_or_not_at_all(box):
    for old, new in (('feature/x', 'feature'), ('feature', 'feature/x')):
        for packed in (True, False):
            what = f'{old} {packed}'
            subprocess.run(['rm', '-rf', box.source], check=True)
            os.mkdir(box.source)
            plant(box)
            git(box, 'branch', old)
            if packed:
                git(box, 'pack-refs', '--all')
            time.sleep(0.02)
            work(box, f'git branch -m {old} {new}; '
                      f'git branch -f {new} $(git commit-tree -p HEAD -m x '
                      'HEAD^{tree})')
            found = told(box, status=1)
            for name, other, why in ((old, new, 'in its place the task has '),
                                     (new, old, 'in its way: rename it')):
                state, reason = result(found, f'refs/heads/{name}')
                equal(state, 'conflict', what)
                within(reason, why, what)
                within(reason, f'"refs/heads/{other}"', what)
            equal(git(box, 'branch', '--format=%(refname:short)'),
                  f'{old}\nmain', what)
            # As the text says.
            git(box, 'branch', '-m', old, new)
            found = told(box, '--held', f'.git/refs/heads/{new}')
            equal(result(found, f'refs/heads/{new}')[0], 'promoted', what)
            equal(git(box, 'log', '-1', '--format=%s', new), 'x', what)
            sound(box)


@case
def an_empty_directory_in_a_new_ones_place_is_named(box):
    plant(box)
    os.makedirs(f'{box.source}/.git/refs/heads/gone')
    work(box, 'git branch gone')
    found = told(box, status=1)
    within(result(found, 'refs/heads/gone')[1], 'a directory is in its place')
    os.rmdir(f'{box.source}/.git/refs/heads/gone')
    equal(result(told(box), 'refs/heads/gone')[0], 'promoted')


@case
def a_stash_without_its_log_is_refused(box):
    plant(box)
    work(box, 'echo 2 >>a; git stash -q; rm .git/logs/refs/stash')
    found = told(box, status=1)
    equal(result(found, 'refs/stash')[0], 'refused')
    within(result(found, 'refs/stash')[1], 'without its log')
    equal(git(box, 'stash', 'list'), '')
    sound(box)


def unusual(box, kind):
    """Makes a repository of this kind; where the task works."""
    if kind == 'reftable':
        git(box, 'config', 'core.repositoryformatversion', '1')
        git(box, 'config', 'extensions.refStorage', 'reftable')
    elif kind == 'partial':
        git(box, 'config', 'core.repositoryformatversion', '1')
        git(box, 'config', 'extensions.partialClone', 'origin')
    elif kind == 'sparse':
        git(box, 'config', 'core.sparseCheckout', 'true')
    elif kind == 'objects':
        os.rename(f'{box.source}/.git/objects', f'{box.top}/objects')
        os.symlink(f'{box.top}/objects', f'{box.source}/.git/objects')


@case
def repositories_of_other_kinds_are_refused_by_name(box):
    head = None
    for kind, text in (('reftable', 'extensions.'), ('partial', 'partial'),
                       ('sparse', 'core.sparseCheckout'),
                       ('objects', 'objects are elsewhere')):
        subprocess.run(['rm', '-rf', box.source], check=True)
        os.mkdir(box.source)
        plant(box)
        head = git(box, 'rev-parse', 'HEAD')
        unusual(box, kind)
        work(box, f'mkdir -p .git/refs/heads; echo {head} >.git/refs/heads/new;'
                  'echo 2 >>a')
        found = told(box)
        equal(found['.git']['result'], 'held back', kind)
        within(found['.git']['reason'], text, kind)
        equal(found['a']['result'], 'promoted', kind)


@case
def nested_bare_and_linked_repositories_are_held_back_by_name(box):
    plant(box)
    git(box, 'init', '-q', 'nested')
    git(box, 'init', '-q', '--bare', 'bare.git')
    for kind, script, path in (
            ('nested', 'cd nested; git commit -q --allow-empty -m x',
             'nested/.git/refs/heads/main'),
            ('new', 'git init -q fresh', 'fresh/.git'),
            ('bare', 'git push -q bare.git main', 'bare.git/refs/heads/main'),
            ('replaced', 'mv .git old; ln -s old .git', '.git')):
        work(box, script)
        found = told(box)
        equal(found.get(path, {'result': None})['result'], 'held back',
              f'{kind} {sorted(found)[:20]}')
    sound(box)


@case
def a_git_that_is_a_file_or_a_link_is_held_back_by_name(box):
    plant(box)
    linked = f'{box.home}/linked'
    git(box, 'worktree', 'add', '-q', linked)
    r = box.sh('echo 2 >>a', '--source', linked, '--json')
    note = f'git has no repository inside: .git of the source leads to ' \
           f'{box.source}/.git; --read {box.source}/.git shows it'
    within(r.err.decode(), note)
    task = r.json()['id']
    r = box.sh('git -c safe.directory="*" log --format=%s', '--source', linked, '--read',
               f'{box.source}/.git')
    equal((r.out, r.err), (b'first\n', b''))
    promote(box, task)
    equal(git(box, 'status', '--short', cwd=linked), ' M a')
    moved = f'{box.home}/elsewhere'
    os.rename(f'{box.source}/.git', moved)
    os.symlink(moved, f'{box.source}/.git')
    box.sh('echo 2 >>b').expect(0)
    promote(box)
    equal(git(box, 'status', '--short'), ' M b')


@case
def a_submodule_is_held_back_and_its_new_commit_is_told(box):
    plant(box)
    other = f'{box.home}/other'
    subprocess.run(['git', 'init', '-q', other], check=True, env=box.env)
    git(box, 'commit', '-q', '--allow-empty', '-m', 'sub', cwd=other)
    git(box, '-c', 'protocol.file.allow=always', 'submodule', '--quiet', 'add',
        other, 'sub')
    git(box, 'commit', '-q', '-m', 'with a submodule')
    work(box, 'cd sub; git commit -q --allow-empty -m more')
    found = told(box)
    held = [p for p in found if p.startswith('.git/modules/sub')]
    check(held, found)
    for path in held:
        equal(found[path]['result'], 'held back', path)
    within(' '.join(found[p]['reason'] for p in held), 'submodule')
    equal(git(box, 'status', '--short'), '')


@case
def a_commit_of_a_submodule_that_stays_is_told_with_the_branch(box):
    plant(box)
    other = f'{box.home}/other'
    subprocess.run(['git', 'init', '-q', other], check=True, env=box.env)
    git(box, 'commit', '-q', '--allow-empty', '-m', 'sub', cwd=other)
    git(box, '-c', 'protocol.file.allow=always', 'submodule', '--quiet', 'add',
        other, 'sub')
    git(box, 'commit', '-q', '-m', 'with a submodule')
    r = work(box, """cd sub; for n in 1 2; do
        git commit -q --allow-empty -m $n; cd ..; git commit -qam bump; cd sub
        done; git rev-parse HEAD; cd ..; git checkout -q -b side HEAD~2
        echo s >s; git add s; git commit -qm s; git checkout -q main
        git merge -q --no-edit side""")
    at = r.out.decode()[:7]
    text = f'     submodule sub is at {at}, and its own commits stay in the ' \
           'task\n     s\n     sub\n'
    out = promote(box).out.decode()
    within(out, text)
    equal(out.count('submodule sub'), 1)
    sound(box)


@case
def pointers_of_large_files_come_as_they_are(box):
    plant(box)
    pointer = ('version https://git-lfs.github.com/spec/v1\noid sha256:'
               + '4d' * 32 + '\nsize 12345\n')
    box.write('big.bin', pointer)
    git(box, 'add', '.')
    git(box, 'commit', '-q', '-m', 'pointer')
    work(box, 'sed -i s/12345/54321/ big.bin; git commit -qam bigger')
    promote(box)
    equal(git(box, 'status', '--short'), '')
    within(git(box, 'show', 'HEAD:big.bin'), '54321')
    sound(box)


if __name__ == '__main__':
    sys.exit(main())

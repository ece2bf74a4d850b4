#!/usr/bin/python3
# limit: 600 s
"""Taking over what was committed: references, objects, HEAD and the index of
the source's repository, by their meaning; what stays; and the way back."""
import os
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from box import (ROOT, Skip, answer, case, check, equal, long_case, main,
                 within)
from repository import (git, plant, promote, result, sound, told, values,
                        work)

EVERYTHING = r'''
    echo 2 >>a; git commit -qam second
    echo n >new; git add new; git commit -qm third
    git tag light; git tag -a -m words annotated
    git checkout -q -b topic/deep; echo t >t; git add t; git commit -qm topic
    git branch -D old; git branch -m side renamed
    echo dirty >>b; git stash -q
    echo again >>b; echo u >untracked; git stash -q -u
    git notes add -m noted main
    test -z "$(git status --short)"
'''


def everything(box, mode):
    plant(box)
    git(box, 'branch', 'old')
    git(box, 'branch', 'side')
    if mode == 'copy':
        git(box, 'pack-refs', '--all')
    before = values(box)
    task = work(box, EVERYTHING + 'git for-each-ref; git stash list',
                '--workspace', mode, '--json')
    shown = box.pinfold('diff').expect(0, text="in .git are git's own")
    within(shown.out.decode(), 'M  main: 2 commits, ')
    check(b'objects' not in shown.out and b'index' not in shown.out, shown)
    within(box.pinfold('diff', task.json()['id'], '.git').out.decode(),
           '.git/objects/')
    r = promote(box)
    out = r.out.decode()
    for text in ('M  HEAD: on topic/deep\n', 'D  old: deleted, was ',
                 'A  renamed: new at ', 'stash: 2 entries, the last is ',
                 'A  tag annotated: new at ', 'A  refs/notes/commits: '):
        within(out, text)
    check(re.search(r'^M  main: 2 commits, [0-9a-f]{7}\.\.[0-9a-f]{7}$', out,
                    re.M), out)
    check('.git/objects' not in out and '.git/index' not in out, out)
    check('leads' not in out, out)
    sound(box)
    equal(git(box, 'status', '--short'), '', 'status')
    equal(git(box, 'log', '--format=%s'), 'topic\nthird\nsecond\nfirst')
    after = values(box)
    equal(len(after['stash'].split()), 2, 'stashes')
    check('refs/heads/old' not in after and 'refs/heads/side' not in after,
          after)
    inside = task.out.decode()
    for name, value in after.items():
        check(name in ('HEAD', 'stash') or f'{value} ' in inside, name)
    promote(box).expect(0, text='no changes to promote')
    git(box, 'stash', 'pop', '-q')
    equal(git(box, 'status', '--short'), ' M b\n?? untracked')
    git(box, 'checkout', '-q', '.')
    os.unlink(f'{box.source}/untracked')
    git(box, 'reflog', 'show', 'main')
    within(git(box, 'reflog', 'show', 'main'), 'pinfold: promoted from t-')
    left = box.pinfold('diff').expect(0)
    check(b'objects' not in left.out and b'logs' not in left.out, left)
    return before


@case
def everything_committed_in_an_overlay_comes_and_goes_back(box):
    before = everything(box, 'overlay')
    # The stash was popped, so it is the host's now.
    r = box.pinfold('undo')
    equal(r.status, 1)
    within(r.out.decode(), 'left: .git/refs/stash: ')
    sound(box)
    git(box, 'stash', 'drop', '-q')
    equal(values(box), before)
    equal(git(box, 'status', '--short'), '', 'status')


@case
def everything_committed_in_a_copy_comes(box):
    everything(box, 'copy')


@case
def an_undo_takes_references_files_and_index_back_after_a_look(box):
    plant(box)
    before = values(box)
    work(box, 'echo 2 >>a; rm b; git add -A; git commit -qm second')
    for _ in range(2):
        promote(box)
        equal(git(box, 'status', '--short'), '', 'status')
        git(box, 'update-index', '--refresh')
        box.pinfold('undo').expect(0)
        equal(values(box), before)
        equal(git(box, 'status', '--short'), '', 'after the undo')
        sound(box)
    # What others build upon the objects stays whole.
    promote(box)
    git(box, 'branch', 'mine', 'main')
    box.pinfold('undo').expect(0)
    sound(box)
    equal(git(box, 'log', '--format=%s', 'mine'), 'second\nfirst')


@case
def what_the_host_moved_is_a_conflict_of_its_own(box):
    plant(box)
    git(box, 'branch', 'other')
    work(box, 'echo 2 >>a; git commit -qam task; git branch -f other; '
              'git branch third')
    git(box, 'commit', '-q', '--allow-empty', '-m', 'host')
    host = git(box, 'rev-parse', 'main')
    found = told(box, status=1)
    equal(result(found, 'refs/heads/main')[0], 'conflict')
    within(result(found, 'refs/heads/main')[1], host[:7])
    within(result(found, 'refs/heads/main')[1], '--held .git/refs/heads/main')
    equal(result(found, 'refs/heads/other')[0], 'promoted')
    equal(result(found, 'refs/heads/third')[0], 'promoted')
    equal(git(box, 'rev-parse', 'main'), host)
    sound(box)
    # The way out, and back.
    promote(box, '--held', '.git/refs/heads/main')
    equal(git(box, 'log', '--format=%s'), 'task\nfirst')
    equal(git(box, 'status', '--short'), '')
    box.pinfold('undo').expect(0)
    equal(git(box, 'rev-parse', 'main'), host)
    sound(box)


@case
def what_git_does_by_itself_is_no_conflict(box):
    plant(box)
    git(box, 'branch', 'packed')
    # The log of a reference knows seconds.
    time.sleep(1.1)
    work(box, 'echo 2 >>a; git commit -qam task; git branch -f packed; '
              'echo x >.git/FETCH_HEAD; git status --short')
    box.write('.git/FETCH_HEAD', 'host\n')
    git(box, 'gc', '-q')
    os.utime(f'{box.source}/c')
    git(box, 'status', '--short')
    found = told(box)
    equal(set(found), {'.git/refs/heads/main', '.git/refs/heads/packed', 'a'})
    equal(git(box, 'status', '--short'), '')
    with open(f'{box.source}/.git/FETCH_HEAD', encoding='ascii') as f:
        equal(f.read(), 'host\n')
    sound(box)


@case
def what_is_staged_on_the_host_stays_staged_or_is_a_conflict(box):
    plant(box)
    box.write('staged', 's')
    box.write('c', 'host')
    git(box, 'add', 'staged', 'c')
    time.sleep(0.02)
    work(box, 'git reset -q; echo 2 >>a; git commit -qm task a')
    promote(box)
    equal(git(box, 'status', '--short'), 'M  c\nA  staged')
    box.pinfold('undo').expect(0)
    equal(git(box, 'status', '--short'), 'M  c\nA  staged')
    work(box, 'git reset -q; echo 2 >c; git commit -qm task c; echo 3 >>a')
    box.write('c', 'host again')
    git(box, 'add', 'c')
    found = told(box, status=1)
    equal(result(found, 'refs/heads/main')[0], 'conflict')
    within(result(found, 'refs/heads/main')[1], 'the index of the host')
    equal(found['a']['result'], 'promoted')
    sound(box)


@case
def a_branch_may_move_where_another_cannot_be_checked_out(box):
    plant(box)
    box.write('c', 'host')
    git(box, 'add', 'c')
    time.sleep(0.02)
    work(box, """git reset -q; echo 2 >>a; git commit -qm main a
        git checkout -q -b topic; echo 2 >c; git commit -qm topic c""")
    found = told(box, status=1)
    for name in ('HEAD', 'refs/heads/topic'):
        equal(result(found, name)[0], 'conflict', name)
        within(result(found, name)[1], 'the index of the host')
    equal(result(found, 'refs/heads/main')[0], 'promoted')
    equal(git(box, 'status', '--short'), 'MM c')
    sound(box)


@case
def commits_that_bring_what_is_protected_stay_until_they_are_named(box):
    plant(box)
    work(box, '''mkdir .vscode; echo {} >.vscode/tasks.json; git add -A
        git commit -qm one; git rm -qr .vscode; git commit -qm two
        git checkout -q -b good main~2; echo g >g; git add g; git commit -qm g
        git checkout -q main''')
    found = told(box)
    equal(result(found, 'refs/heads/main')[0], 'held back')
    within(result(found, 'refs/heads/main')[1], '.vscode/tasks.json')
    equal(result(found, 'refs/heads/good')[0], 'promoted')
    sound(box)
    r = promote(box, '--held', '.git/refs/heads/main')
    within(r.text(), 'warning: ".git/refs/heads/main" is taken over')
    equal(git(box, 'log', '--format=%s'), 'two\none\nfirst')
    sound(box)


@case
def what_git_obeys_stays_whatever_is_named(box):
    plant(box)
    work(box, '''git config core.fsmonitor ./evil; git config alias.st '!./evil'
        git config core.hooksPath hooks; git config filter.x.clean ./evil
        printf '#!/bin/sh\\ntouch %s' "$PWD/ran" >.git/hooks/post-checkout
        chmod +x .git/hooks/post-checkout; cp .git/hooks/post-checkout evil
        chmod +x evil; ln -s ../../evil .git/hooks/post-commit
        echo '* filter=x' >.git/info/attributes
        echo /etc >.git/objects/info/alternates
        mkdir -p .git/modules/m; echo x >.git/modules/m/config
        mkdir -p .git/worktrees/w; echo x >.git/worktrees/w/gitdir
        echo abc >.git/shallow; rm .git/objects/info/alternates
        git -c core.fsmonitor= -c core.hooksPath=/ commit -q --allow-empty \
            -m two || true''')
    with open(f'{box.source}/.git/config', encoding='utf-8') as f:
        before = f.read()
    found = told(box, '--held', '.git/config', '--held',
                 '.git/hooks/post-commit')
    for name in ('config', 'hooks/post-checkout', 'hooks/post-commit',
                 'info/attributes', 'modules/m/config', 'worktrees/w/gitdir'):
        equal(result(found, name)[0], 'held back', name)
    with open(f'{box.source}/.git/config', encoding='utf-8') as f:
        equal(f.read(), before)
    git(box, 'checkout', '-q', '-b', 'more')
    git(box, 'commit', '-q', '--allow-empty', '-m', 'host')
    check(not os.path.exists(f'{box.source}/ran'), 'something ran')
    sound(box)


@case
def only_the_references_that_were_asked_for_come(box):
    plant(box)
    work(box, 'echo 2 >>a; git commit -qam two; git branch one; '
              'git branch two; echo f >f')
    found = told(box, '--only', '.git/refs/heads/one')
    equal({p for p, c in found.items() if c['result'] == 'promoted'},
          {'.git/refs/heads/one'})
    equal(git(box, 'status', '--short'), '')
    found = told(box, '--only', 'f')
    equal(set(found), {'f'})
    found = told(box, '--only', '.git/**', '--only', 'a')
    equal(set(found), {'.git/refs/heads/main', '.git/refs/heads/two', 'a'})
    equal(git(box, 'status', '--short'), '?? f')
    for _ in range(3):
        box.pinfold('undo').expect(0)
    equal(git(box, 'branch', '--format=%(refname:short)'), 'main')
    equal(git(box, 'status', '--short'), '')
    sound(box)


@case
def a_branch_without_a_commit_and_a_detached_head_come(box):
    plant(box)
    subprocess.run(['rm', '-rf', f'{box.source}/.git'], check=True)
    git(box, 'init', '-q')
    work(box, 'git add a b; git commit -qm one')
    promote(box)
    equal(git(box, 'status', '--short'), '?? c\n?? dir/')
    equal(git(box, 'log', '--format=%s'), 'one')
    work(box, 'echo x >>a; git commit -qam two; git checkout -q --detach HEAD~1')
    r = promote(box)
    within(r.out.decode(), 'M  HEAD: at ')
    equal(git(box, 'symbolic-ref', '-q', 'HEAD', status=1), '')
    equal(git(box, 'status', '--short'), '?? c\n?? dir/')
    box.pinfold('undo').expect(0)
    equal(git(box, 'symbolic-ref', 'HEAD'), 'refs/heads/main')
    equal(git(box, 'status', '--short'), '?? c\n?? dir/')
    sound(box)


@case
def on_a_terminal_the_references_are_shown_and_come_after_a_yes(box):
    plant(box)
    before = values(box)
    work(box, 'echo 2 >>a; git commit -qam two; git branch topic')
    seen, status = answer(box, b'n\n')
    equal(status, 1)
    for text in ('M  main: 1 commit, ', 'A  topic: new at ', 'M  a',
                 'promote 3 changes of t-'):
        within(seen, text)
    equal(values(box), before)
    answer(box, b'y\n')
    equal(git(box, 'log', '--format=%s', 'topic'), 'two\nfirst')
    equal(git(box, 'status', '--short'), '')
    sound(box)


@case
def what_commits_change_is_named_before_they_come(box):
    """Also where the working tree shows nothing of it."""
    plant(box)
    work(box, """cp a ~/a; echo more >>a; for i in 1 2 3 4 5 6 7 8 9; do
        echo $i >f$i; done; echo x >"$(printf 'odd\\nname')"; echo x >g
        git add -A; git commit -qm two; cp ~/a a; rm f* g odd*
        git branch side""")
    seen, status = answer(box, b'n\n')
    equal(status, 1)
    for text in ('M  main: 1 commit, ', '     a\r\n     f1\r\n',
                 '     and 2 more\r\n', 'A  side: new at '):
        within(seen, text)
    git(box, 'branch', 'x')
    r = promote(box, '--only', '.git/refs/heads/side')
    within(r.out.decode(), '     a\n     f1\n')
    work(box, 'echo y >"$(printf \'odd\\nname\')"; git add -A; '
              'git commit -qm odd')
    within(promote(box).out.decode(), '     "odd\\nname"\n')
    sound(box)


@case
def a_repository_of_another_user_stays_that_users(box):
    if not ROOT:
        raise Skip('only root works in the trees of others')
    plant(box)
    subprocess.run(['chown', '-R', '12345:23456', box.source], check=True)
    git(box, 'config', '--global', '--add', 'safe.directory', '*')
    work(box, 'git config --global --add safe.directory "*"; echo 2 >>a; '
              'git commit -qam two; git checkout -q -b x/y; git tag t')
    promote(box)
    for folder, folders, files in os.walk(box.source):
        # What undo needs, where the state is on another file system: ours.
        folders[:] = [f for f in folders if not f.startswith('pinfold-')]
        for name in [*files, '.']:
            st = os.lstat(f'{folder}/{name}')
            equal((st.st_uid, st.st_gid), (12345, 23456), f'{folder}/{name}')
    equal(git(box, 'status', '--short'), '')
    sound(box)


@long_case
def a_lock_of_another_git_is_respected(box):
    plant(box)
    before = values(box)
    task = work(box, 'echo 2 >>a; git commit -qam two', '--json').json()['id']
    for name in ('index', 'HEAD', 'refs/heads/main', 'packed-refs'):
        box.write(f'.git/{name}.lock')
        r = promote(box, status=125)
        within(r.text(), f'.git/{name}.lock')
        os.unlink(f'{box.source}/.git/{name}.lock')
        equal(values(box), before, name)
        equal(git(box, 'status', '--short'), '', name)
        check(not os.path.exists(f'{box.state}/promoting/{task}'), name)
    promote(box)
    sound(box)


@case
def looking_at_a_repository_reads_no_file_again_and_changes_nothing(box):
    plant(box)
    # What changed within the second of the index is always read.
    for name in ('a', 'b', 'c', 'dir/d'):
        os.utime(f'{box.source}/{name}', (10 ** 9, 10 ** 9))
    git(box, 'status')
    index = f'{box.source}/.git/index'
    os.utime(index, (10 ** 9 + 10, 10 ** 9 + 10))
    r = work(box, 'git status --short; git diff --stat; git log -1 --format=%s',
             '--json')
    equal(r.out, b'first\n')
    equal(box.changes(r.json()['id'])['changes'], [])


if __name__ == '__main__':
    sys.exit(main())

#!/usr/bin/env python3
"""Protected paths: what a command may change and what is told as held back,
because a program of the host would run or obey it."""
import os
import sys

from box import case, check, equal, main, within

HOOK = 'echo true >.git/hooks/post-commit; '


def read(box, name):
    with open(f'{box.source}/{name}', encoding='ascii') as f:
        return f.read()


def repository(box):
    for name in ('.git/HEAD', '.git/config', '.git/objects/x', '.git/refs/x',
                 '.git/hooks/x'):
        box.write(name, '')


@case
def the_end_of_a_run_names_what_is_held_back(box):
    repository(box)
    r = box.sh(HOOK + 'echo x >a; echo x >b', '--json').expect(0)
    task = r.json()['id']
    within(r.text(), '3 files changed, 1 held back (.git/hooks/post-commit); '
           f'pinfold diff {task}')
    equal(r.json()['changes'],
          {'added': 3, 'deleted': 0, 'held': 1, 'modified': 0})
    r = box.sh('mkdir .vscode; echo x >.vscode/tasks.json; echo y >.envrc; '
               'echo z >.git/config', '--json').expect(0)
    # With the directory; a file is named rather than that.
    within(r.text(), ' 4 held back (')
    check('(.vscode ' not in r.text(), r.text())
    within(r.text(), ' and 3 more); pinfold diff ')


@case
def a_name_that_would_write_on_the_terminal_is_quoted_at_the_end(box):
    r = box.sh('mkdir .vscode; echo >".vscode/$(printf \'\\033[2Jx\')"; '
               'rmdir .vscode 2>/dev/null; :').expect(0)
    check(b'\033' not in r.err, r.err)
    within(r.text(), 'held back (')


@case
def diff_marks_what_is_held_back_and_says_why(box):
    repository(box)
    task = box.sh(HOOK + 'echo x >a; mkdir .claude; echo x >.claude/x',
                  '--json').expect(0).json()['id']
    lines = box.pinfold('diff', task).expect(0).out.decode().splitlines()
    check('A  .git/hooks/post-commit  held back: git hooks run on the host'
          in lines, lines)
    check('A  a' in lines, lines)
    within(box.pinfold('diff', '--stat', task).expect(0).out,
           b'; 3 of them held back; the layer holds ')
    found = box.changes(task)
    held = {c['path']: c['held'] for c in found['changes']}
    equal(held['a'], None)
    equal(held['.git/hooks/post-commit'], 'git hooks run on the host')
    check(held['.claude/x'], held)
    equal(found['counts']['held'], 3)


@case
def the_policy_protects_further_paths(box):
    policy = f'{box.top}/p.yaml'
    with open(policy, 'w', encoding='ascii') as f:
        f.write('version: 1\nfiles: {protect: ["ci/**", "**/*.mk"]}\n')
    r = box.sh('mkdir -p ci/x a/b; echo >ci/x/y; echo >a/b/c.mk; echo >a/d',
               '--policy', policy, '--json').expect(0)
    equal(r.json()['changes']['held'], 4)
    held = {c['path'] for c in box.changes(r.json()['id'])['changes']
            if c['held'] == 'files.protect of the policy'}
    equal(held, {'ci', 'ci/x', 'ci/x/y', 'a/b/c.mk'})
    shown = box.pinfold('policy', 'show', policy).expect(0).out
    within(shown, b'**/*.mk: held back at promotion')


@case
def links_in_the_place_of_what_is_protected_are_held_back(box):
    repository(box)
    box.write('.cargo/x', '')
    task = box.sh('mkdir evil; echo x >evil/config; rm -r .cargo; '
                  'ln -s evil .cargo; mv .git git2; ln -s evil .git; '
                  'ln -s evil .vscode', '--json').expect(0).json()['id']
    held = {c['path'] for c in box.changes(task)['changes'] if c['held']}
    for path in ('.cargo', '.git', '.vscode'):
        check(path in held, held)


@case
def a_directory_that_held_names_comes_with_what_is_held_back_in_it(box):
    """Each with a warning; what the host has changed wants its own name."""
    box.write('sub/plain', 'host\n')
    box.write('sub/.envrc', 'host\n')
    r = box.sh('mkdir -p sub/.vscode; echo {} >sub/.vscode/tasks.json; '
               'echo task >sub/.envrc; echo task >sub/plain; echo x >.envrc',
               '--json')
    task = r.expect(0).json()['id']
    box.write('sub/plain', 'host again\n')
    r = box.pinfold('promote', '--yes', task, '--held', 'sub/').expect(1)
    for name in ('sub/.vscode/tasks.json', 'sub/.envrc'):
        within(r.text(), f'warning: "{name}" is taken over: ')
    check('"sub" is taken' not in r.text(), r.text())
    within(r.out, b'conflict: sub/plain: ')
    equal(read(box, 'sub/.envrc'), 'task\n')
    equal(read(box, 'sub/.vscode/tasks.json'), '{}\n')
    equal(read(box, 'sub/plain'), 'host again\n')
    check(not os.path.exists(f'{box.source}/.envrc'), 'it was not named')
    box.pinfold('promote', '--yes', task, '--held', box.source).expect(125)


@case
def a_repository_that_the_command_made_is_held_back_whole(box):
    if not os.path.exists('/usr/bin/git'):
        return 'git is not there'
    task = box.sh('git init -q; git init -q --bare b; git init -q n; '
                  'echo x >f', '--json').expect(0).json()['id']
    found = {c['path']: c['held'] for c in box.changes(task)['changes']}
    equal(found['f'], None)
    for path in ('.git', '.git/config', '.git/HEAD', 'n/.git',
                 'n/.git/HEAD', 'b/HEAD'):
        check(found[path], path)
    return ''


if __name__ == '__main__':
    sys.exit(main())

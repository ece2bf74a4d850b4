#!/usr/bin/python3
# limit: 300 s
"""Looking at what a promotion would do, before it does anything."""
import json
import os
import pty
import re
import stat
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from box import (PINFOLD, answer, case, check, equal, main, read_until,
                 tree_state, within)
from repository import git, plant, promote, values, work


def unchanged(box, before):
    equal(now(box), before)


def now(box):
    """All but the times of directories: a plan may be made in .git, and goes."""
    state = tree_state(box.source)
    return {path: what[:3] + what[4:] if stat.S_ISDIR(what[0]) else what
            for path, what in state.items()}, values(box)


@case
def without_a_terminal_the_plan_is_shown_and_yes_is_asked_for(box):
    plant(box)
    work(box, '''echo 2 >>a; git commit -qam two; mkdir .vscode
        echo x >.vscode/settings.json''')
    before = now(box)
    r = box.pinfold('promote').expect(125)
    for text in ('M  main: 1 commit, ', 'M  a\n',
                 'held back: .vscode/settings.json: ',
                 'promoting needs --yes'):
        within(r.text(), text)
    check(r.text().index('M  a') < r.text().index('needs --yes'), r)
    equal(r.out, b'')
    unchanged(box, before)
    r = box.pinfold('promote', '--json').expect(125)
    plan = json.loads(r.out)
    found = {c['path']: c['result'] for c in plan['changes']}
    equal((found['a'], found['.git/refs/heads/main']), ('planned', 'planned'))
    equal((plan['promoted'], plan['dry_run']), (0, True))
    within(r.text(), 'promoting needs --yes')
    unchanged(box, before)


@case
def a_dry_run_shows_the_plan_does_nothing_and_has_its_status(box):
    plant(box)
    work(box, 'echo 2 >>a; echo 3 >>b; echo n >n')
    before = now(box)
    for words in (['-n'], ['--dry-run', '--yes']):
        r = box.pinfold('promote', *words).expect(0)
        equal(r.out, b'M  a\nM  b\nA  n\n')
        within(r.text(), '3 would be promoted')
        check('undo' not in r.text(), r)
        unchanged(box, before)
    equal(json.loads(box.pinfold('promote', '-n', '--json').out)['planned'], 3)
    box.write('b', 'host\n')
    before = now(box)
    r = box.pinfold('promote', '-n').expect(1)
    within(r.out.decode(), 'conflict: b: changed on the host since')
    within(r.text(), '2 would be promoted, 1 in conflict')
    r = box.pinfold('promote', '-n', 'nothere').expect(125)
    within(r.text(), 'has changed nothing at')
    unchanged(box, before)
    r = promote(box, status=1)
    equal(json.loads(box.pinfold('promote', '-n', '--json').expect(1).out)
          ['planned'], 0)
    within(r.text(), '2 promoted, 1 in conflict')


@case
def nothing_to_promote_needs_nobody_to_be_asked(box):
    plant(box)
    work(box, 'mkdir .vscode; echo x >.vscode/settings.json; rmdir .vscode '
              '2>/dev/null || true')
    work(box, 'echo x >.envrc')
    r = box.pinfold('promote').expect(0)
    within(r.out.decode(), 'held back: .envrc')


@case
def the_question_names_the_task_its_command_and_other_tasks(box):
    plant(box)
    first = work(box, 'echo 1 >one', '--json').json()['id']
    task = box.run('--json', '--', 'sh', '-c', 'echo 2 >two') \
        .expect(0).json()['id']
    seen, status = answer(box, b'n\n')
    equal(status, 1)
    within(seen, f'promote 1 change of {task} (sh -c "echo 2 >two") to ')
    within(seen, f'another task of the same source holds changes: '
                 f'pinfold diff {first}')


@case
def merging_is_offered_where_it_can_help(box):
    plant(box)
    work(box, 'git commit -q --allow-empty -m task')
    git(box, 'commit', '-q', '--allow-empty', '-m', 'host')
    r = promote(box, status=1)
    check('--merge' not in r.text(), r)
    work(box, 'echo 2 >>a')
    box.write('a', 'host\n')
    within(promote(box, status=1).text(), '--merge merges text')


COMMITS = r'''echo 2 >>a; git commit -qam two; git checkout -q -b topic
    printf 'odd \033[31mred\n' >t; git add t
    git commit -qm "topic $(printf '\033[32m') words"
    git tag -a v1 -m 'words of the tag'; git checkout -q main
    echo stashed >>b; echo u >untracked; git stash -q -u; git branch -D gone'''


def look(box, *words, status=0):
    return box.pinfold('diff', *words).expect(status).out.decode()


def no_trace(box, task):
    left = [n for n in os.listdir(box.folder(task)) if n.startswith('look')]
    equal(left, [], 'left of a look')


@case
def diff_tells_references_as_promote_does(box):
    plant(box)
    git(box, 'branch', 'gone')
    task = work(box, COMMITS, '--json').json()['id']
    before = now(box)
    shown = look(box)
    for text in ('M  main: 1 commit, ', 'A  topic: new at ', 'A  tag v1: new',
                 'A  stash: 1 entry', 'D  gone: deleted, was '):
        within(shown, text)
    check('.git/refs' not in shown, shown)
    plan = box.pinfold('promote', '-n').out.decode()
    equal([l for l in shown.splitlines() if ': ' in l],
          [l for l in plan.splitlines() if ': ' in l])
    unchanged(box, before)
    no_trace(box, task)
    # What the host has moved is marked too.
    git(box, 'commit', '-q', '--allow-empty', '-m', 'host')
    within(look(box), 'M  .git/refs/heads/main  conflict: moved on the host')


@case
def a_reference_is_shown_with_its_commits_and_their_patch(box):
    plant(box)
    git(box, 'branch', 'gone')
    task = work(box, COMMITS, '--json').json()['id']
    before = now(box)
    shown = look(box, '-p', task, '.git/refs/heads/topic')
    for text in ('# topic: new at ', '\n    topic \x1b[32m words\n',
                 '+odd \x1b[31mred\n', '\n    two\n', '\n+2\n'):
        within(shown, text)
    check('first' not in shown, shown)
    shown = look(box, '-p', task, '.git/refs/heads/main')
    within(shown, '\n    two\n')
    check('topic' not in shown, shown)
    shown = look(box, '-p', task, '.git/refs/stash')
    within(shown, '\n+stashed\n')
    within(shown, '+++ b/untracked\n')
    within(look(box, '-p', task, '.git/refs/tags'), 'words of the tag')
    within(look(box, '-p', task, '.git/refs/heads/gone'), '# gone: deleted')
    # On a terminal nothing of it moves the cursor.
    main_fd, fd = pty.openpty()
    process = subprocess.Popen([PINFOLD, 'diff', '-p', '.git/refs/heads'],
                               stdin=fd, stdout=fd, stderr=fd, cwd=box.source,
                               env={**box.env, 'NO_COLOR': '1'})
    os.close(fd)
    seen = read_until(main_fd, b'two')
    equal(process.wait(60), 0)
    os.close(main_fd)
    check(b'\x1b' not in seen, seen)
    unchanged(box, before)
    no_trace(box, task)


@case
def nothing_of_the_task_is_obeyed_when_its_commits_are_shown(box):
    plant(box)
    ran = f'{box.top}/ran'
    work(box, f'''printf '#!/bin/sh\\ntouch {ran}\\n' >evil; chmod +x evil
        echo '* diff=x' >.gitattributes; echo '* diff=x' >.git/info/attributes
        git add evil .gitattributes; echo 2 >>a
        git -c core.hooksPath=/ commit -qam two
        git config diff.x.command "$PWD/evil"
        git config diff.x.textconv "$PWD/evil"
        git config core.fsmonitor "$PWD/evil"; git config core.pager "$PWD/evil"
        cp evil .git/hooks/post-checkout''')
    within(look(box, '-p', '.git/refs/heads/main'), '\n+2\n')
    check(not os.path.exists(ran), 'something ran')
    work(box, 'echo 2 >>b; git commit -qam two; mkfifo .git/objects/f')
    within(look(box, '-p', '.git/refs/heads/main'),
           '# commits are not shown: among the task\'s objects')
    work(box, '''echo 2 >>b; git commit -qam two
        f=$(git rev-parse HEAD^{tree}); f=.git/objects/$(echo $f |
        sed 's|^..|&/|'); chmod u+w $f; echo broken >$f''')
    r = box.pinfold('diff', '-p', '.git/refs/heads/main').expect(0)
    check(b'# its commits cannot be shown: ' in r.out or
          b'# what follows is not shown' in r.out, r)


@case
def what_is_too_long_is_cut_and_says_so(box):
    plant(box)
    work(box, 'seq 2400000 >big; git add big; git commit -qm big')
    r = box.pinfold('diff', '-p', '.git/refs/heads/main').expect(0)
    within(r.out[-200:].decode(), '# what follows is not shown')
    check(16 << 20 <= len(r.out) < 17 << 20, len(r.out))


@case
def diff_marks_conflicts_and_counts_what_promote_holds_back(box):
    plant(box)
    for mode in ('overlay', 'copy'):
        git(box, 'checkout', '-q', '.')
        task = work(box, '''echo 2 >>a; echo 2 >>b; rm c; mkdir .vscode
            echo x >.vscode/settings.json; echo x >.git/hooks/post-commit
            ''', '--workspace', mode, '--json').json()['id']
        box.write('b', 'host\n')
        box.write('c', 'host\n')
        shown = look(box, task)
        for name in 'bc':
            within(shown, f'{name}  conflict: changed on the host since')
        within(shown, 'M  a\n')
        within(look(box, '-p', task), '# b conflict: changed on the host')
        found = box.changes(task)
        conflicts = {c['path']: c['conflict'] for c in found['changes']}
        equal(conflicts['a'], None)
        within(conflicts['b'], 'changed on the host since')
        r = box.pinfold('promote', '-n', task).expect(1)
        within(r.text(), f', {found["counts"]["held"]} held back, 2 in conf')
        within(look(box, '--stat', task),
               f'{found["counts"]["held"]} of them held back')
        no_trace(box, task)


@case
def the_end_of_a_run_counts_no_file_that_only_git_wrote(box):
    plant(box)
    r = work(box, """echo 2 >>a; echo n >n; git add -A; git commit -qm two
        git branch topic; mkdir -p .git/hooks
        echo x >.git/hooks/post-commit""", '--json')
    within(r.text(), 'pinfold: 3 files changed, and 2 branches, tags or the '
                     'like, 1 held back (.git/hooks/post-commit); ')
    check(r.json()['changes']['added'] > 3, 'the record counts all')
    r = work(box, 'git commit -q --allow-empty -m two')
    within(r.text(), 'pinfold: 0 files changed, and 1 branch, tag or the like;')
    r = work(box, 'echo x >.git/COMMIT_EDITMSG')
    within(r.text(), "pinfold: files of git's own in .git changed; pinfold ")


@case
def a_directory_of_which_everything_stays_does_not_come_empty(box):
    for mode in ('overlay', 'copy'):
        work(box, """mkdir -p only/deep part empty/deep
            echo x >only/deep/.envrc; echo x >part/.envrc; echo f >part/f""",
             '--workspace', mode)
        r = promote(box)
        equal(r.out.decode(), 'A  empty/\nA  empty/deep/\n' +
              ''.join(f'held back: {p}/.envrc: shells run it when the '
                      'directory is entered or a shell starts\n'
                      for p in ['only/deep']) +
              'A  part/\n' + 'held back: part/.envrc: shells run it when the '
              'directory is entered or a shell starts\n' + 'A  part/f\n')
        equal(sorted(os.listdir(box.source)), ['empty', 'part'])
        # What is named brings what it lies in.
        promote(box, '--held', 'only/deep/.envrc')
        check(os.path.exists(f'{box.source}/only/deep/.envrc'), 'named')
        for _ in range(2):
            box.pinfold('undo').expect(0)
        equal(os.listdir(box.source), [])
        box.pinfold('discard', '--yes').expect(0)


@case
def a_repository_that_stays_is_one_line(box):
    plant(box)
    task = work(box, """git init -q sub; cd sub; echo x >x; git add x
        git commit -qm nested""", '--json').json()['id']
    shown = look(box)
    check(re.search(r'^A  sub/\.git: \d+ files  held back: ', shown, re.M),
          shown)
    equal(len([l for l in shown.splitlines() if '.git' in l]), 1, shown)
    check(len([c for c in box.changes(task)['changes']
               if c['path'].startswith('sub/.git/')]) > 10, 'JSON has all')
    seen, _ = answer(box, b'n\n')
    check(re.search(r'held back: sub/\.git: \d+ files: ', seen), seen)
    check('sub/.git/' not in seen, seen)
    r = promote(box)
    check(re.search(rb'^held back: sub/\.git: \d+ files: ', r.out, re.M), r)
    check(b'sub/.git/' not in r.out, r)
    equal(sorted(os.listdir(f'{box.source}/sub')), ['x'])


@case
def a_task_that_runs_is_marked_too(box):
    plant(box)
    task = box.start()
    box.exec(task, '--', 'sh', '-c', 'echo 2 >>a; git commit -qam two; '
             'echo 2 >>b').expect(0)
    box.write('b', 'host\n')
    shown = look(box, task)
    within(shown, 'b  conflict: changed on the host')
    within(shown, 'M  main: 1 commit, ')
    within(look(box, '-p', task, '.git/refs/heads/main'), '\n+2\n')


if __name__ == '__main__':
    sys.exit(main())

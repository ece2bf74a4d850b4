#!/usr/bin/python3
# limit: 300 s
"""Looking at what a promotion would do, before it does anything."""
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from box import answer, case, check, equal, main, tree_state, within
from repository import git, plant, promote, values, work


def unchanged(box, before):
    equal((tree_state(box.source), values(box)), before)


def now(box):
    return tree_state(box.source), values(box)


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


if __name__ == '__main__':
    sys.exit(main())

#!/usr/bin/python3
# limit: 300 s
"""The host has another branch checked out than when the task began: what was
committed moves its references and stays out of the working tree."""
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from box import case, check, equal, main, within
from repository import git, plant, promote, result, sound, told, work

COMMIT = '''echo 2 >>a; mkdir new; echo n >new/n; git rm -qr dir
    git add -A; git commit -qm task; echo u >u; echo u >>b'''


def on_other(box, *options):
    plant(box)
    git(box, 'branch', 'other')
    work(box, COMMIT, *options)
    git(box, 'checkout', '-q', 'other')


def stays_out(box, *options):
    on_other(box, *options)
    found = told(box, status=1)
    equal(result(found, 'refs/heads/main')[0], 'promoted')
    for path in ('a', 'new/n', 'dir'):
        equal(found[path]['result'], 'conflict', path)
        within(found[path]['reason'], 'the host is on other', path)
    equal(result(found, 'HEAD')[0], 'conflict')
    within(result(found, 'HEAD')[1],
           'the host is on other since the task began')
    within(result(found, 'HEAD')[1], '--held .git/HEAD')
    # What was never committed belongs to no branch.
    equal(found['u']['result'], 'promoted')
    equal(found['b']['result'], 'promoted')
    equal(git(box, 'status', '--short', '-uall'), ' M b\n?? u')
    equal(git(box, 'log', '--format=%s', 'main'), 'task\nfirst')
    equal(git(box, 'log', '--format=%s'), 'first')
    sound(box)


@case
def what_was_committed_stays_out_of_a_tree_on_another_branch(box):
    stays_out(box)
    # Again, and it is as it was.
    found = told(box, status=1)
    check({'.git/HEAD', 'a', 'dir', 'new/n'} <= set(found), found)
    equal({c['result'] for c in found.values()}, {'conflict'})
    equal(git(box, 'status', '--short', '-uall'), ' M b\n?? u')
    # Back on its branch there is nothing left.
    git(box, 'checkout', '-q', 'main')
    equal(told(box), {})
    equal(git(box, 'status', '--short', '-uall'), ' M b\n?? u')


@case
def so_it_does_where_the_task_had_a_copy(box):
    stays_out(box, '--workspace', 'copy')


def moved_on(box, *options):
    plant(box)
    work(box, 'git checkout -qb new-branch; echo 2 >>a; echo n >n; git add n; '
              'git commit -qam task; echo u >u', *options)
    box.write('host', 'h\n')
    git(box, 'add', 'host')
    git(box, 'commit', '-qm', 'host')
    found = told(box, status=1)
    equal(result(found, 'refs/heads/new-branch')[0], 'promoted')
    equal(result(found, 'HEAD')[0], 'conflict')
    within(result(found, 'HEAD')[1],
           'the host has moved main on since the task began')
    for path in ('a', 'n'):
        equal(found[path]['result'], 'conflict', path)
    equal(found['u']['result'], 'promoted')
    equal(git(box, 'status', '--short', '-uall', '--branch'), '## main\n?? u')
    equal(git(box, 'log', '--format=%s'), 'host\nfirst')
    git(box, 'checkout', '-q', 'new-branch')
    equal(git(box, 'log', '--format=%s'), 'task\nfirst')
    equal(git(box, 'status', '--short', '-uall'), '?? u')
    git(box, 'checkout', '-q', 'main')
    sound(box)


@case
def a_new_branch_does_not_go_below_a_host_that_committed(box):
    moved_on(box)


@case
def so_it_is_where_the_task_had_a_copy(box):
    moved_on(box, '--workspace', 'copy')


@case
def who_stays_on_a_branch_that_moved_is_promoted_as_ever(box):
    plant(box)
    work(box, 'echo u >u; echo 2 >>a')
    box.write('host', 'h\n')
    git(box, 'add', 'host')
    git(box, 'commit', '-qm', 'host')
    found = told(box)
    equal({c['result'] for c in found.values()}, {'promoted'}, found)
    equal(git(box, 'status', '--short', '-uall'), ' M a\n?? u')


@case
def whoever_names_it_gets_it_all_the_same(box):
    on_other(box)
    found = told(box, '--held', 'a', status=1)
    equal(found['a']['result'], 'promoted')
    equal(found['new/n']['result'], 'conflict')
    r = promote(box, '--held', '.git/HEAD')
    within(r.text(), 'warning: what the task committed comes into the working '
                     'tree, although the host is on another branch')
    equal(git(box, 'status', '--short', '-uall'),
          ' M a\n M b\n D dir/d\n?? new/n\n?? u')
    equal(git(box, 'symbolic-ref', 'HEAD'), 'refs/heads/other')
    sound(box)


@case
def a_commit_without_a_branch_is_another_place_too(box):
    plant(box)
    work(box, 'echo 2 >>a; git commit -qam task')
    first = git(box, 'rev-parse', 'HEAD')
    git(box, 'checkout', '-q', '--detach')
    found = told(box, status=1)
    equal(found['a']['result'], 'conflict')
    within(found['a']['reason'], f'the host is at {first[:7]}, on no branch')
    equal(git(box, 'status', '--short'), '')
    sound(box)


@case
def who_has_come_back_is_where_the_task_began(box):
    plant(box)
    git(box, 'branch', 'other')
    # The log of HEAD knows seconds.
    time.sleep(1.1)
    work(box, COMMIT)
    git(box, 'checkout', '-q', 'other')
    git(box, 'checkout', '-q', 'main')
    check('.git/HEAD' not in told(box), 'HEAD')
    equal(git(box, 'status', '--short', '-uall'), ' M b\n?? u')
    sound(box)


@case
def a_rebase_of_the_host_is_no_other_place(box):
    plant(box)
    git(box, 'branch', 'base')
    git(box, 'commit', '-q', '--allow-empty', '-m', 'mine')
    git(box, 'checkout', '-q', 'base')
    git(box, 'commit', '-q', '--allow-empty', '-m', 'theirs')
    git(box, 'checkout', '-q', 'main')
    time.sleep(1.1)
    work(box, 'echo 2 >>a; git commit -qam task')
    git(box, 'rebase', '-q', '--keep-empty', 'base')
    found = told(box, status=1)
    equal(result(found, 'refs/heads/main')[0], 'conflict')
    equal(found['a']['result'], 'promoted')
    check('.git/HEAD' not in found, found)


@case
def what_the_task_checked_out_stays_out_as_well(box):
    plant(box)
    git(box, 'checkout', '-q', '-b', 'topic')
    box.write('t', 't\n')
    git(box, 'add', 't')
    git(box, 'commit', '-q', '-m', 'topic')
    git(box, 'checkout', '-q', '-b', 'third', 'main')
    git(box, 'checkout', '-q', 'main')
    work(box, 'git checkout -q topic; echo u >u')
    git(box, 'checkout', '-q', 'third')
    found = told(box, status=1)
    equal(found['t']['result'], 'conflict')
    equal(found['u']['result'], 'promoted')
    equal(result(found, 'HEAD')[0], 'conflict')
    within(result(found, 'HEAD')[1], 'the host is on third')
    equal(git(box, 'status', '--short', '-uall'), '?? u')
    sound(box)


@case
def a_promotion_that_came_before_is_no_reason_to_write_elsewhere(box):
    plant(box)
    git(box, 'branch', 'other')
    time.sleep(1.1)
    work(box, 'echo 2 >>a; echo n >n; git add n; git commit -qam task')
    promote(box)
    equal(told(box), {})
    git(box, 'checkout', '-q', 'other')
    box.pinfold('promote', '--yes')
    equal(git(box, 'status', '--short'), '')
    sound(box)


@case
def what_cannot_be_told_stays_out_whole(box):
    """Among the task's objects something is none: git is not asked."""
    plant(box)
    git(box, 'branch', 'other')
    work(box, COMMIT + '; mkfifo .git/objects/f')
    git(box, 'checkout', '-q', 'other')
    found = told(box, status=1)
    for path in ('a', 'b', 'u'):
        equal(found[path]['result'], 'conflict', path)
    within(found['u']['reason'], 'the host is on other')
    equal(git(box, 'status', '--short'), '')
    sound(box)


@case
def a_task_that_committed_nothing_is_promoted_as_ever(box):
    plant(box)
    git(box, 'branch', 'other')
    work(box, 'echo 2 >>a; echo u >u')
    git(box, 'checkout', '-q', 'other')
    equal(set(told(box)), {'a', 'u'})
    equal(git(box, 'status', '--short'), ' M a\n?? u')


if __name__ == '__main__':
    sys.exit(main())

#!/usr/bin/env python3
"""pinfold discard with paths: a part of a task's changes goes, the rest stays,
and what goes is as the source has it."""
import json
import os
import sys

from box import answer, case, check, equal, main, within

CHANGE = '''
echo more >>kept; rm gone; rm -r dir; mkdir dir; echo new >dir/new
rm -r whole; mkdir -p added/deep; echo x >added/deep/f; echo y >added/g
chmod 700 mode; ln -sfn elsewhere link
'''


def plant(box):
    for name in ('kept', 'gone', 'mode', 'dir/a', 'dir/b/c', 'dir/b/d',
                 'whole/one', 'whole/two/three', 'same'):
        box.write(name, name + '\n')
    os.symlink('kept', f'{box.source}/link')


def listed(box, task):
    return {c['path']: c['kind'] for c in box.changes(task)['changes']}


def discard(box, *words, status=0):
    return box.pinfold('discard', '--yes', *words).expect(status)


def each_kind(box, mode):
    plant(box)
    task = box.sh(CHANGE, '--workspace', mode, '--json').expect(0).json()['id']
    before = listed(box, task)
    equal(discard(box, task, 'kept').out,
          f'1 change of {task} discarded\n'.encode())
    discard(box, task, 'gone', 'mode', 'link')
    left = listed(box, task)
    for path in ('kept', 'gone', 'mode', 'link'):
        check(path not in left, left)
        before.pop(path)
    equal(left, before, 'the rest is as it was')
    # One file of a directory that was made anew, and of one that is gone.
    discard(box, task, 'dir/b/c')
    left = listed(box, task)
    check('dir/b/c' not in left, left)
    equal(left['dir/b/d'] if 'dir/b/d' in left else left.get('dir/b'),
          'deleted')
    equal(left['dir/a'], 'deleted')
    equal(left['dir/new'], 'added')
    discard(box, task, 'whole/two')
    left = listed(box, task)
    equal(left.get('whole/one'), 'deleted')
    for path in ('whole', 'whole/two', 'whole/two/three'):
        check(path not in left, left)
    # What was added, and the rest.
    discard(box, task, 'added/deep')
    left = listed(box, task)
    check('added/deep/f' not in left and left['added/g'] == 'added', left)
    counts = box.record(task)['changes']
    equal(counts['added'] + counts['modified'] + counts['deleted'], len(left))
    discard(box, task, 'added', 'dir', 'whole')
    equal(listed(box, task), {})
    box.gone(task)


@case
def each_kind_of_change_can_be_discarded_by_itself_in_an_overlay(box):
    each_kind(box, 'overlay')


@case
def each_kind_of_change_can_be_discarded_by_itself_in_a_copy(box):
    each_kind(box, 'copy')


@case
def the_whole_source_can_be_named_too(box):
    for mode in ('overlay', 'copy'):
        plant(box)
        task = box.sh(CHANGE, '--workspace', mode,
                      '--json').expect(0).json()['id']
        r = box.pinfold('discard', '--yes', '--json', task, '.').expect(0)
        found = json.loads(r.out)
        equal(found['discarded'], [task])
        check(found['paths'] > 5, found)
        equal(listed(box, task), {}, mode)
        os.system(f'rm -rf {box.source}/*')


@case
def what_is_no_change_is_an_error_and_nothing_is_done(box):
    plant(box)
    task = box.sh(CHANGE, '--json').expect(0).json()['id']
    before = listed(box, task)
    r = discard(box, task, 'kept', 'same', status=125)
    within(r.text(), f'{task} has changed nothing at "same"')
    equal(listed(box, task), before)
    box.pinfold('discard', task, 'kept').expect(125)
    equal(listed(box, task), before)


@case
def a_task_that_runs_is_refused(box):
    plant(box)
    task = box.start()
    box.exec(task, 'sh', '-c', 'echo x >kept').expect(0)
    r = discard(box, task, 'kept', status=125)
    within(r.text(), f'{task} is running: pinfold stop {task} first')


@case
def a_task_that_another_command_is_at_work_on_does_not_run(box):
    import fcntl
    plant(box)
    task = box.start()
    box.exec(task, 'sh', '-c', 'echo x >kept').expect(0)
    box.pinfold('stop', task).expect(0)
    box.started.remove(task)
    with open(f'{box.folder(task)}/lock', 'rb') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for words in (['discard', task], ['discard', task, 'kept'],
                      ['promote', '--yes', task], ['rm', '--changes', task]):
            within(box.pinfold(*words).expect(125).text(), 'another pinfold '
                   f'command is at work on {task}: try again when it has ended')
        for words in (['exec', task, '--', 'true'], ['stop', task]):
            within(box.pinfold(*words).expect(125).text(),
                   f'{task} is not running')
        box.pinfold('stop', '--all').expect(0)
        check(task not in box.pinfold('ps').out.decode(), 'it runs')
        state = json.loads(box.pinfold('ps', '--json', task).expect(0).out)
        equal(state['tasks'][0]['state'], 'ended')
    box.pinfold('promote', '--yes', task).expect(0)


@case
def a_file_that_the_host_has_changed_is_not_restored_in_a_copy(box):
    plant(box)
    task = box.sh('echo x >kept; rm gone', '--workspace', 'copy',
                  '--json').expect(0).json()['id']
    box.write('kept', 'the host was here\n')
    r = discard(box, task, 'kept', status=125)
    within(r.text(), 'cannot restore "kept": the host has changed it')
    equal(listed(box, task), {'kept': 'modified', 'gone': 'deleted'})


@case
def links_in_the_layer_lead_nowhere(box):
    """A link where a directory was: nothing is removed behind it."""
    plant(box)
    victim = f'{box.top}/victim'
    os.mkdir(victim)
    with open(f'{victim}/a', 'w', encoding='ascii') as f:
        f.write('x')
    for mode in ('overlay', 'copy'):
        task = box.sh(f'rm -r dir; ln -s {victim} dir', '--workspace', mode,
                      '--json').expect(0).json()['id']
        r = box.pinfold('discard', '--yes', task, 'dir/a')
        equal(r.status, 125, mode)
        check(os.path.exists(f'{victim}/a'), mode)
        discard(box, task, 'dir')
        equal(listed(box, task), {}, mode)
        check(os.path.exists(f'{victim}/a'), mode)


@case
def directories_that_the_command_closed_are_no_obstacle(box):
    plant(box)
    task = box.sh('mkdir shut; echo x >shut/f; chmod 0 shut; echo y >kept',
                  '--json').expect(0).json()['id']
    discard(box, task, 'shut')
    equal(listed(box, task), {'kept': 'modified'})


@case
def changes_whose_record_is_damaged_are_not_denied(box):
    task = box.sh('echo x >f', '--json').json()['id']
    with open(f'{box.folder(task)}/task.json', 'w', encoding='ascii') as f:
        f.write('{')
    for verb in (['promote', '--yes'], ['undo']):
        box.pinfold(*verb, task).expect(125, text=f'the record of {task}')
    check(not os.path.exists(f'{box.source}/f'), 'it came')


@case
def discarding_what_was_promoted_says_that_undo_ends_with_it(box):
    task = box.sh('echo x >f; echo x >.envrc', '--json').json()['id']
    box.pinfold('promote', '--yes').expect(0)
    for words in (['discard'], ['discard', task, '.envrc']):
        seen, status = answer(box, b'n\n', *words)
        equal(status, 1, words)
        check('nothing to discard' not in seen, seen)
    seen, status = answer(box, b'n\n', 'discard')
    within(seen, 'what was promoted stays, and undo can no longer take it back')
    discard(box)
    box.pinfold('undo', task).expect(125, text='or it was discarded since')
    check(os.path.exists(f'{box.source}/f'), 'it is gone')


if __name__ == '__main__':
    sys.exit(main())

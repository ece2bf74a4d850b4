#!/usr/bin/python3
# limit: 300 s
"""Three-way merges: what both the task and the host have changed comes with
--merge, and what cannot be merged stays a conflict that says why."""
import os
import pty
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from box import PINFOLD, case, check, equal, main, read_until, within
from repository import git, plant, promote, sound, told

MODES = ('overlay', 'copy')
LINES = ''.join(f'line {n}\n' for n in range(20))


def read(box, name):
    with open(f'{box.source}/{name}', encoding='utf-8') as f:
        return f.read()


def changed(text, line, to):
    wanted = f'line {line}\n'
    check(wanted in text, wanted)
    return text.replace(wanted, f'{to}\n')


def save(box, name, text):
    """As editors do: a new file, renamed into place."""
    box.write(f'{name}~', text)
    os.chmod(f'{box.source}/{name}~', os.stat(
        f'{box.source}/{name}').st_mode & 0o7777)
    os.rename(f'{box.source}/{name}~', f'{box.source}/{name}')


def edit(box, name, text):
    with open(f'{box.source}/{name}', 'w', encoding='utf-8') as f:
        f.write(text)


def tracked(box, *names):
    plant(box)
    for name in names:
        box.write(name, LINES)
    git(box, 'add', '.')
    git(box, 'commit', '-q', '-m', 'lines')


def start(box, script, mode='overlay'):
    return box.sh(script, '--workspace', mode, '--json').expect(0).json()['id']


def result(found, name):
    return found[name]['result'], found[name]['reason'] or ''


def conflict(box, why, name='f'):
    """The path stays a conflict for this reason, and the host's is kept."""
    before = read(box, name)
    state, reason = result(told(box, '--merge', status=1), name)
    equal(state, 'conflict', name)
    within(reason, why, name)
    equal(read(box, name), before, 'the host\'s')


@case
def both_sides_changes_come_and_undo_gives_back_the_hosts(box):
    tracked(box, 'f', 'g')
    for mode in MODES:
        for write in (save, edit):
            git(box, 'checkout', '-q', '.')
            task = start(box, "sed -i 's/^line 2$/task/' f; echo x >>g", mode)
            host = changed(LINES, 17, 'host')
            write(box, 'f', host)
            r = promote(box, task, status=1)
            within(r.text(), '--merge merges text')
            equal(read(box, 'f'), host)
            r = promote(box, task, '--merge')
            within(r.out.decode(), "M  f: merged with the host's\n")
            within(r.text(), '1 promoted, 1 of them merged')
            merged = changed(host, 2, 'task')
            equal(read(box, 'f'), merged, f'{mode} {write.__name__}')
            r = promote(box, task, '--merge')
            within(r.text(), 'has no changes to promote')
            r = promote(box, task)
            within(r.text(), 'has no changes to promote')
            box.pinfold('undo', task).expect(0)
            equal(read(box, 'f'), host, 'after the undo')
            # What the undo has put back is not the task's to replace.
            promote(box, task, status=1)
            equal(read(box, 'f'), host)
            promote(box, task, '--merge')
            equal(read(box, 'f'), merged)
            box.pinfold('undo', task).expect(0)
            box.pinfold('undo', task).expect(0)
            equal(read(box, 'g'), LINES)
            sound(box)


@case
def what_an_undo_gives_back_of_the_hosts_is_a_conflict_again(box):
    tracked(box, 'f')
    for mode in MODES:
        git(box, 'checkout', '-q', '.')
        task = start(box, "sed -i 's/^line 2$/task/' f", mode)
        host = changed(LINES, 17, 'host')
        save(box, 'f', host)
        promote(box, task, status=1)
        promote(box, '--held', 'f', task)
        box.pinfold('undo', task).expect(0)
        equal(read(box, 'f'), host, mode)
        promote(box, task, status=1)
        equal(read(box, 'f'), host, mode)


@case
def a_merge_keeps_permissions_and_says_so_in_json(box):
    tracked(box, 'f')
    os.chmod(f'{box.source}/f', 0o750)
    start(box, "sed -i 's/^line 2$/task/' f; echo new >n")
    save(box, 'f', changed(LINES, 17, 'host'))
    owner = os.stat(f'{box.source}/f')
    found = told(box, '--merge')
    equal([found['f']['result'], found['f']['merged'], found['n']['merged']],
          ['promoted', True, False])
    now = os.stat(f'{box.source}/f')
    equal((now.st_mode, now.st_uid, now.st_gid),
          (owner.st_mode, owner.st_uid, owner.st_gid))


@case
def what_was_not_committed_when_the_task_began_is_in_both_sides(box):
    tracked(box, 'f')
    dirty = changed(LINES, 9, 'dirty')
    edit(box, 'f', dirty)
    start(box, "sed -i 's/^line 2$/task/' f")
    edit(box, 'f', changed(dirty, 17, 'host'))
    promote(box, '--merge')
    equal(read(box, 'f'), changed(changed(dirty, 17, 'host'), 2, 'task'))


@case
def the_same_lines_stay_a_conflict_and_no_mark_is_written(box):
    tracked(box, 'f', 'g')
    for mode in MODES:
        git(box, 'checkout', '-q', '.')
        start(box, "sed -i 's/^line 2$/task/' f g", mode)
        save(box, 'f', changed(LINES, 2, 'host'))
        save(box, 'g', changed(LINES, 12, 'host'))
        conflict(box, 'both sides changed the same lines')
        equal(read(box, 'g'), changed(changed(LINES, 12, 'host'), 2, 'task'))


@case
def what_the_host_has_staged_or_committed_since_is_no_base(box):
    tracked(box, 'f')
    script = "sed -i 's/^line 2$/task/' f"
    why = 'git does not tell what it was before'
    for last in ('add', 'commit', 'reset'):
        start(box, script)
        save(box, 'f', changed(read(box, 'f'), 17, last))
        git(box, 'add', 'f')
        if last != 'add':
            git(box, 'commit', '-q', '-m', last)
        if last == 'reset':
            git(box, 'reset', '-q', 'HEAD^')
        conflict(box, why)
        # Not even where git status has looked at it since.
        git(box, 'status')
        conflict(box, why)
        edit(box, 'f', changed(read(box, 'f'), 12, 'again'))
        conflict(box, why)
        git(box, 'reset', '-q', '--hard', 'HEAD')
        edit(box, 'f', LINES)
        git(box, 'commit', '-q', '-a', '--allow-empty', '-m', 'back')


@case
def what_cannot_be_merged_stays_a_conflict_with_its_reason(box):
    tracked(box, 'f', 'mode', 'gone', 'gone-here', 'kind', 'big', 'twice')
    box.write('bin', 'a\0b\n' * 9)
    git(box, 'add', '.')
    git(box, 'commit', '-q', '-m', 'more')
    box.write('stray', LINES)
    with open(f'{box.source}/.git/info/exclude', 'a', encoding='ascii') as f:
        f.write('stray\n')
    start(box, """
        sed -i 's/^line 2$/task/' mode big twice stray kind
        chmod 700 mode; rm gone; echo x >>bin; echo x >>gone-here
        ln twice thrice; echo mine >new; rm kind; ln -s f kind
    """)
    for name in ('mode', 'gone', 'twice', 'stray', 'kind'):
        save(box, name, changed(LINES, 17, 'host'))
    edit(box, 'big', changed(LINES, 17, 'host') + 'x' * (9 << 20))
    edit(box, 'bin', 'c\0' + 'a\0b\n' * 9)
    os.unlink(f'{box.source}/gone-here')
    box.write('new', 'theirs\n')
    found = told(box, '--merge', status=1)
    for name, why in (('mode', 'permissions differ'), ('gone', 'no file'),
                      ('twice', 'further names'), ('stray', 'not track'),
                      ('kind', 'no file'), ('big', '8 MiB'),
                      ('bin', 'Cannot merge binary files'),
                      ('gone-here', 'removed on the host'),
                      ('new', 'not track')):
        state, reason = result(found, name)
        equal(state, 'conflict', name)
        within(reason, why, name)
    sound(box)


@case
def without_a_repository_there_is_no_base(box):
    box.write('f', LINES)
    start(box, "sed -i 's/^line 2$/task/' f")
    save(box, 'f', changed(LINES, 17, 'host'))
    conflict(box, 'not merged: without a git repository')
    equal(read(box, 'f'), changed(LINES, 17, 'host'))


@case
def a_merge_that_has_nothing_of_one_side_is_left_to_the_user(box):
    tracked(box, 'f', 'g')
    start(box, "sed -i 's/^line 2$/task/' f g")
    os.utime(f'{box.source}/f')
    save(box, 'g', changed(changed(LINES, 2, 'task'), 17, 'host'))
    conflict(box, 'nothing of what the host has changed')
    conflict(box, 'nothing of the task', 'g')


@case
def what_is_protected_is_held_back_and_not_merged(box):
    tracked(box, '.envrc', 'f')
    start(box, "sed -i 's/^line 2$/task/' .envrc f")
    for name in ('.envrc', 'f'):
        save(box, name, changed(LINES, 17, 'host'))
    found = told(box, '--merge')
    equal(result(found, '.envrc')[0], 'held back')
    equal(read(box, '.envrc'), changed(LINES, 17, 'host'))
    equal(read(box, 'f'), changed(changed(LINES, 17, 'host'), 2, 'task'))


@case
def names_that_mean_something_to_git_are_names_of_files(box):
    names = (':(top)x', '*', '-f', 'a b\tc', 'é')
    tracked(box, *names, 'abc')
    start(box, "for f in *; do test -d \"$f\" || "
               "sed -i 's/^line 2$/task/' \"./$f\"; done")
    for name in names:
        save(box, name, changed(LINES, 17, 'host'))
    promote(box, '--merge')
    for name in names:
        equal(read(box, name),
              changed(changed(LINES, 17, 'host'), 2, 'task'), name)


@case
def the_question_says_what_is_merged_and_a_later_edit_ends_it(box):
    tracked(box, 'f')
    start(box, "sed -i 's/^line 2$/task/' f")
    host = changed(LINES, 17, 'host')
    save(box, 'f', host)
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(box.source)
        os.execve(PINFOLD, [PINFOLD, 'promote', '--merge'], box.env)
    text = read_until(fd, b'[y/N] ')
    within(text.decode(), "M  f: merged with the host's")
    within(text.decode(), '1 of them merged')
    edit(box, 'f', changed(host, 12, 'again'))
    os.write(fd, b'y\n')
    text = read_until(fd, b'look again')
    os.waitpid(pid, 0)
    os.close(fd)
    equal(read(box, 'f'), changed(host, 12, 'again'))


@case
def an_edit_after_the_merge_is_never_lost(box):
    """Saves go on while promotions run: each lands before or after, never
    under."""
    tracked(box, 'f')
    lost = []
    for n in range(12):
        git(box, 'checkout', '-q', '.')
        task = start(box, "sed -i 's/^line 2$/task/' f")
        save(box, 'f', changed(LINES, 17, 'host'))
        p = subprocess.Popen(
            [PINFOLD, 'promote', '--yes', '--merge', task], cwd=box.source,
            env=box.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(0.01 * n)
        text = read(box, 'f')
        latest = text.replace('line 12\n', f'save {n}\n')
        save(box, 'f', latest)
        status = p.wait(timeout=60)
        check(status in (0, 1), status)
        if f'save {n}\n' not in read(box, 'f'):
            lost.append((n, status))
        box.pinfold('discard', '--yes', task)
    equal(lost, [])


@case
def a_merge_beside_commits_comes_with_them(box):
    tracked(box, 'f')
    start(box, "sed -i 's/^line 2$/task/' f; echo x >n; git add n; "
               "git commit -q -m mine")
    host = changed(LINES, 17, 'host')
    save(box, 'f', host)
    promote(box, '--merge')
    equal(read(box, 'f'), changed(host, 2, 'task'))
    equal(git(box, 'log', '-1', '--format=%s'), 'mine')
    sound(box)


if __name__ == '__main__':
    main()

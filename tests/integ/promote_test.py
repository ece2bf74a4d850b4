#!/usr/bin/python3
# limit: 600 s
"""Taking changes over: what comes into the source and what does not, conflicts
with what the host does meanwhile, and the way back."""
import json
import os
import pty
import stat
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from box import (Failure, PINFOLD, ROOT, Skip, answer, case, check, equal, main,
                 read_until, tree_state, within)

MODES = ('overlay', 'copy')
# Every kind of change that two trees can differ by.
CHANGE = r'''
    set -e
    echo more >>kept; rm gone; chmod 755 mode
    mkdir -p new/deep; echo x >new/deep/x; ln new/deep/x new/deep/y
    rm -r folder; echo file >folder
    rm file; mkdir file; echo y >file/in
    rm link; ln -s elsewhere link
    rm to-dir; mkdir to-dir; echo z >to-dir/z
    rm to-link; ln -s kept to-link
    rm -r tree; rm -r again; mkdir again; echo a >again/other
    chmod 750 closed-some; mkdir ro; echo r >ro/r; chmod 555 ro
    printf 'bytes' >"$(printf 'odd\nname\377')"
    truncate -s 8M sparse; echo end >>sparse
    touch -d 2001-02-03T04:05:06Z old
    chmod u+s,g+s setid; echo s >secret; chmod 000 secret
    ln -s /etc/passwd absolute; ln -s ../../.. up
'''


def plant(box):
    for name in ('kept', 'gone', 'mode', 'folder/f', 'file', 'tree/a/b/c',
                 'again/one', 'again/two', 'same', 'closed-some/f', 'setid'):
        box.write(name, name + '\n')
    for name in ('link', 'to-dir', 'to-link'):
        os.symlink('same', f'{box.source}/{name}')
    os.unlink(f'{box.source}/to-link')
    box.write('to-link', 'x')


def promote(box, *words, **more):
    return box.pinfold('promote', '--yes', *words, **more)


def result(box, *words, status=0):
    """Mapping of path to (result, reason) of a promotion."""
    r = box.pinfold('promote', '--yes', '--json', *words).expect(status)
    return {c['path']: (c['result'], c['reason'])
            for c in json.loads(r.out)['changes']}


def task_of(r):
    return r.json()['id']


def read(box, name):
    with open(os.path.join(os.fsencode(box.source), os.fsencode(name)),
              'rb') as f:
        return f.read()


def content(top):
    """What is the same on both sides of a promotion and its way back."""
    return {path: (what[0], what[1], what[2]) +
            (what[3:4] if stat.S_ISREG(what[0]) else ()) + what[6:]
            for path, what in tree_state(top).items()}


def pending(box, task):
    return {c['path'] for c in box.changes(task)['changes']}


def listed(box):
    """Without the originals that are kept in a source on another mount."""
    return sorted(os.fsdecode(n) for n in os.listdir(os.fsencode(box.source))
                  if not n.startswith(b'.pinfold-'))


def every_kind(box, mode):
    plant(box)
    before = content(box.source)
    r = box.sh(CHANGE, '--workspace', mode, '--json').expect(0)
    task = task_of(r)
    promote(box).expect(0)
    equal(pending(box, task), set(), 'what is left')
    equal(read(box, 'kept'), b'kept\nmore\n')
    check(not os.path.lexists(f'{box.source}/gone'), 'gone is there')
    equal(os.stat(f'{box.source}/mode').st_mode & 0o7777, 0o755, 'mode')
    x, y = (os.stat(f'{box.source}/new/deep/{n}') for n in 'xy')
    equal(x.st_ino, y.st_ino, 'two links are one file')
    equal(read(box, 'folder'), b'file\n')
    equal(read(box, 'file/in'), b'y\n')
    equal(os.readlink(f'{box.source}/link'), 'elsewhere')
    equal(read(box, 'to-dir/z'), b'z\n')
    equal(os.readlink(f'{box.source}/to-link'), 'kept')
    check(not os.path.lexists(f'{box.source}/tree'), 'tree is there')
    equal(os.listdir(f'{box.source}/again'), ['other'])
    equal(os.stat(f'{box.source}/closed-some').st_mode & 0o7777, 0o750, 'dir')
    equal(os.stat(f'{box.source}/ro').st_mode & 0o7777, 0o555, 'ro')
    equal(read(box, b'odd\nname\xff'), b'bytes')
    sparse = os.stat(f'{box.source}/sparse')
    equal(sparse.st_size, (8 << 20) + 4)
    check(sparse.st_blocks * 512 < 1 << 20, f'{sparse.st_blocks} blocks')
    equal(os.stat(f'{box.source}/old').st_mtime, 981173106.0, 'time')
    equal(os.stat(f'{box.source}/setid').st_mode & 0o7000, 0, 'set-id bits')
    equal(os.stat(f'{box.source}/secret').st_mode & 0o7777, 0, 'secret')
    equal(os.readlink(f'{box.source}/absolute'), '/etc/passwd')
    for path, what in tree_state(box.source).items():
        equal(what[1], os.geteuid(), path)
    box.pinfold('undo').expect(0)
    equal(content(box.source), before, 'after the undo')
    check(len(pending(box, task)) > 20, 'the changes are there again')
    promote(box).expect(0)
    equal(read(box, 'kept'), b'kept\nmore\n')
    box.pinfold('undo').expect(0)
    box.pinfold('discard', '--yes').expect(0)
    equal(content(box.source), before, 'after all')


@case
def every_kind_of_change_of_an_overlay_comes_and_goes_back(box):
    every_kind(box, 'overlay')


@case
def every_kind_of_change_of_a_copy_comes_and_goes_back(box):
    every_kind(box, 'copy')


@case
def protected_paths_stay_until_they_are_named(box):
    box.write('kept')
    task = task_of(box.sh('echo >kept; mkdir .vscode; echo {} >.envrc; '
                          'echo {} >.vscode/tasks.json', '--json'))
    found = result(box)
    equal(found['kept'][0], 'promoted')
    for name in ('.envrc', '.vscode/tasks.json'):
        equal(found[name][0], 'held back', name)
        check(found[name][1], name)
        check(not os.path.exists(f'{box.source}/{name}'), name)
    within(' '.join(sorted(pending(box, task))), '.envrc')
    r = promote(box, '--held', '.envrc').expect(0)
    within(r.text(), 'warning: ".envrc"')
    check(os.path.exists(f'{box.source}/.envrc'), 'named and not promoted')
    check('.envrc' not in pending(box, task), 'promoted and still a change')


@case
def without_a_terminal_promoting_needs_yes(box):
    box.sh('echo x >new').expect(0)
    box.pinfold('promote').expect(125, text='--yes')
    equal(listed(box), [])
    within(box.pinfold('diff').out.decode(), 'new')


@case
def on_a_terminal_the_summary_is_shown_and_the_answer_counts(box):
    box.write('kept')
    task = task_of(box.sh('echo x >new; echo >kept; echo >.envrc', '--json'))
    seen, status = answer(box, b'n\n')
    equal(status, 1)
    for text in ('A  new', 'M  kept', 'held back: .envrc',
                 'promote 2 changes of t-', '1 held back'):
        within(seen, text)
    equal(listed(box), ['kept'])
    check(not os.path.exists(f'{box.state}/promoting/{task}'),
          'a mark is left')
    answer(box, b'y\n')
    equal(listed(box), ['kept', 'new'])


@case
def a_question_that_was_interrupted_is_no_interrupted_promotion(box):
    box.sh('echo x >new').expect(0)
    main_fd, fd = pty.openpty()
    process = subprocess.Popen([PINFOLD, 'promote'], stdin=fd, stdout=fd,
                               stderr=fd, cwd=box.source, env=box.env,
                               start_new_session=True)
    os.close(fd)
    read_until(main_fd, b'[y/N] ')
    process.terminate()
    process.wait(60)
    os.close(main_fd)
    r = promote(box).expect(0)
    check(b'interrupted' not in r.err, r.err)
    equal(listed(box), ['new'])


@case
def only_what_a_pattern_covers_is_promoted(box):
    task = task_of(box.sh('mkdir -p a/b c; echo x >a/b/x.c; echo x >a/b/y; '
                          'echo x >c/x.c; echo x >d', '--json'))
    promote(box, '--only', '**/*.c').expect(0)
    equal(sorted(pending(box, task)), ['a/b/y', 'd'])
    check(not os.path.exists(f'{box.source}/a/b/y'), 'y came')
    promote(box, '--only', './a/', '--only', f'{box.source}/d').expect(0)
    equal(pending(box, task), set())
    promote(box, '--only', '[').expect(125, text='--only')
    promote(box, '--only', 'no/*').expect(125, text='nothing at "no/*" in')
    promote(box, '--only', '/elsewhere').expect(125, text='/elsewhere')
    box.pinfold('undo').expect(0)
    equal(sorted(pending(box, task)), ['a/b/y', 'd'])
    box.pinfold('undo').expect(0)
    equal(listed(box), [])
    box.pinfold('undo').expect(125, text='nothing to undo')


@case
def paths_are_promoted_as_diff_names_them_and_mistyped_ones_refused(box):
    other, sub = f'{box.home}/other', f'{box.source}/sub'
    os.mkdir(other)
    os.mkdir(sub)
    task = task_of(box.sh("echo x >sub/f; echo x >'sub/f*'; mkdir a; echo x "
                          f'>a/b; echo x >c; echo x >{other}/g',
                          '--write', other, '--json'))
    promote(box, task, 'f*', 'nothing', cwd=sub).expect(
        125, text='nothing at "sub/nothing" in')
    equal(len(pending(box, task)), 6)
    promote(box, task, 'f*', cwd=sub).expect(0, text='4 not asked for')
    equal(sorted(os.listdir(sub)), ['f*'])
    promote(box, 'a', f'{other}/g').expect(0)
    equal(sorted(pending(box, task)), ['c', 'sub/f'])
    promote(box, '.').expect(0)
    equal(listed(box), ['a', 'c', 'sub'])
    equal(sorted(os.listdir(sub)), ['f', 'f*'])


def host_changes(box, mode):
    for name in ('edited', 'saved', 'removed', 'dir/f', 'dir/g', 'mine',
                 'whole/f', 'moved/f', 'both', 'away/f'):
        box.write(name, name + '\n')
    time.sleep(0.05)
    r = box.sh('''
        for f in edited saved removed mine both; do echo task >>$f; done
        rm -r dir; rm -r whole; echo task >moved/f; echo task >created
        echo task >>away/f''', '--workspace', mode, '--json').expect(0)
    with open(f'{box.source}/edited', 'a', encoding='ascii') as f:
        f.write('host\n')
    box.write('.saved', 'host\n')
    os.rename(f'{box.source}/.saved', f'{box.source}/saved')
    os.unlink(f'{box.source}/removed')
    box.write('dir/new', 'host\n')
    os.rename(f'{box.source}/moved', f'{box.source}/elsewhere')
    os.symlink('elsewhere', f'{box.source}/moved')
    box.write('created', 'host\n')
    box.write('both', 'both\ntask\n')
    os.unlink(f'{box.source}/away/f')
    os.rmdir(f'{box.source}/away')
    return task_of(r)


def conflicts(box, mode):
    task = host_changes(box, mode)
    before = content(box.source)
    found = result(box, status=1)
    # A copy tells the file in a directory that is a link now, not both.
    moved = 'moved' if mode == 'overlay' else 'moved/f'
    for name in ('edited', 'saved', 'removed', 'created', moved):
        equal(found.get(name, ('?',))[0], 'conflict', name)
        check(found[name][1], name)
    equal(found['mine'], ('promoted', None))
    equal(found['whole'][0], 'promoted')
    equal(found['dir'][0], 'conflict')
    within(found['dir'][1], '"new"')
    check(not os.path.exists(f'{box.source}/whole'), 'whole is there')
    check('away/f' in found and found['away/f'][0] == 'conflict', found)
    after = content(box.source)
    for path in before:
        if b'whole' not in path and not path.endswith((b'/mine', b'/.')):
            equal(after.get(path), before[path], path)
    left = pending(box, task)
    check('edited' in left and 'mine' not in left, left)
    # Named, it is taken over, and the host's comes back by an undo.
    promote(box, '--only', 'saved', '--held', 'saved').expect(0)
    equal(read(box, 'saved'), b'saved\ntask\n')
    box.pinfold('undo').expect(0)
    equal(read(box, 'saved'), b'host\n')


@case
def a_file_under_another_name_is_no_conflict_beside_what_the_host_adds(box):
    for name in ('a', 'removed', 'd/b'):
        box.write(name, f'this is {name}\n')
    for mode in MODES:
        task = task_of(box.sh('mv a a2; mv d/b d/b2; mv d/b2 c; '
                              'echo x >>removed', '--workspace', mode,
                              '--json').expect(0))
        for name in ('host', 'd/host'):
            box.write(name, mode)
        os.unlink(f'{box.source}/removed')
        found = result(box, task, status=1)
        equal(found.pop('removed')[0], 'conflict', mode)
        equal({what for what, _ in found.values()}, {'promoted'}, found)
        equal(read(box, 'a2'), b'this is a\n')
        box.pinfold('undo', task).expect(0)
        box.write('removed', 'x')


@case
def what_the_host_changed_is_a_conflict_of_an_overlay(box):
    conflicts(box, 'overlay')


@case
def what_the_host_changed_is_a_conflict_of_a_copy(box):
    conflicts(box, 'copy')


@case
def an_undo_leaves_what_was_changed_since_and_names_it(box):
    for name in ('a', 'b', 'c'):
        box.write(name, name)
    task = task_of(box.sh('for f in a b c; do echo x >>$f; done; rm -f c; '
                          'mkdir d; echo >d/in; echo >e; chmod 550 d',
                          '--json'))
    promote(box).expect(0)
    with open(f'{box.source}/a', 'a', encoding='ascii') as f:
        f.write('host')
    box.write('c', 'host')
    os.chmod(f'{box.source}/d', 0o750)
    box.write('d/host', 'host')
    os.chmod(f'{box.source}/d', 0o550)
    r = box.pinfold('undo')
    equal(r.status, 1)
    text = r.out.decode()
    for name in ('a', 'c', 'd'):
        within(text, f'left: {name}: ')
    equal(read(box, 'a'), b'ax\nhost')
    equal(read(box, 'b'), b'b')
    equal(read(box, 'c'), b'host')
    equal(listed(box), ['a', 'b', 'c', 'd'])
    equal(os.listdir(f'{box.source}/d'), ['host'])
    equal(os.stat(f'{box.source}/d').st_mode & 0o777, 0o550)
    check('b' in pending(box, task) and 'a' not in pending(box, task),
          pending(box, task))
    # Once the host has given way the rest comes back too.
    os.unlink(f'{box.source}/c')
    os.chmod(f'{box.source}/d', 0o750)
    os.unlink(f'{box.source}/d/host')
    equal(box.pinfold('undo').status, 1)
    equal(read(box, 'c'), b'c')
    equal(listed(box), ['a', 'b', 'c'])


@case
def git_directories_are_left_whatever_is_named(box):
    subprocess.run(['git', 'init', '-q', box.source], check=True, env=box.env)
    hook = '.git/hooks/post-commit'
    before = content(f'{box.source}/.git')
    box.sh(f'echo x >{hook}; git config core.fsmonitor x; echo x >f; '
           'git add f').expect(0)
    r = promote(box, '--held', hook, '--held', '.git/config').expect(0)
    within(r.out.decode(), f'held back: {hook}: ')
    within(r.text(), f'"{hook}" stays held back')
    within(r.text(), f'/upper/{hook}\n')
    equal(content(f'{box.source}/.git'), before)
    equal(read(box, 'f'), b'x\n')
    out = subprocess.run(['git', 'status', '--short'], cwd=box.source,
                         env=box.env, capture_output=True, check=True).stdout
    equal(out, b'?? f\n', 'nothing foreign in git status')


@case
def a_deleted_repository_inside_the_source_is_held_back(box):
    subprocess.run(['git', 'init', '-q', f'{box.source}/sub/inner'],
                   check=True, env=box.env)
    box.write('sub/f', 'f')
    for mode in MODES:
        box.sh('rm -rf sub', '--workspace', mode).expect(0)
        promote(box)
        check(os.path.isdir(f'{box.source}/sub/inner/.git'), mode)


@case
def special_files_are_refused_by_name(box):
    box.sh('mkfifo pipe; python3 -c "import socket; '
           'socket.socket(socket.AF_UNIX).bind(\'sock\')"; echo x >f'
           ).expect(0)
    found = result(box, status=1)
    equal(found['pipe'][0], 'refused')
    within(found['pipe'][1], 'FIFO')
    equal(found['sock'][0], 'refused')
    within(found['sock'][1], 'socket')
    equal(listed(box), ['f'])


@case
def a_file_that_is_hidden_from_the_task_is_never_replaced(box):
    box.write('.env', 'secret')
    box.write('dir/.env', 'secret')
    box.write('dir/f', 'f')
    policy = f'{box.top}/policy.yaml'
    with open(policy, 'w', encoding='ascii') as f:
        f.write('version: 1\nfiles: {deny: [.env, dir/.env]}\n')
    for mode in MODES:
        box.sh('echo mine >.env; rm -rf dir; true', '--policy', policy,
               '--workspace', mode).expect(0)
        promote(box, '--held', '.env', '--held', 'dir')
        equal(read(box, '.env'), b'secret', mode)
        equal(read(box, 'dir/.env'), b'secret', mode)


@case
def new_files_get_the_owner_of_their_directory_and_others_keep_theirs(box):
    if not ROOT:
        raise Skip('only root can give files away')
    box.write('theirs', 'x')
    os.mkdir(f'{box.source}/shared')
    os.chown(f'{box.source}/theirs', 12345, 23456)
    os.chown(f'{box.source}/shared', 23456, 34567)
    os.chmod(f'{box.source}/shared', 0o2775)
    box.sh('echo y >>theirs || { cat theirs >t; mv -f t theirs; }; '
           'echo y >own; echo y >shared/f; mkdir shared/d; echo y >shared/d/f'
           , '--workspace', 'copy').expect(0)
    promote(box).expect(0)
    for name, ids in (('theirs', (12345, 23456)), ('own', (0, 0)),
                      ('shared/f', (23456, 34567)),
                      ('shared/d', (23456, 34567)),
                      ('shared/d/f', (23456, 34567))):
        st = os.stat(f'{box.source}/{name}')
        equal((st.st_uid, st.st_gid), ids, name)
    equal(os.stat(f'{box.source}/shared/d').st_mode & 0o7000, 0o2000)


@case
def a_git_directory_that_was_granted_for_writing_is_not_promoted(box):
    for other in (f'{box.home}/main/.git', f'{box.home}/bare'):
        for name in ('objects', 'refs/heads'):
            os.makedirs(f'{other}/{name}')
        with open(f'{other}/HEAD', 'w', encoding='ascii') as f:
            f.write('ref: refs/heads/main\n')
        task = task_of(box.sh(
            f'echo x >{other}/refs/heads/main; echo x >{other}/packed-refs; '
            'echo z >here', '--write', other, '--json'))
        got = result(box, '--held', f'{other}/packed-refs')
        equal(got[f'{other}/refs/heads/main'][0], 'held back')
        equal(got[f'{other}/packed-refs'][0], 'held back')
        equal(got['here'][0], 'promoted')
        equal(os.listdir(f'{other}/refs/heads'), [])
        equal(len(pending(box, task)), 2)
        os.unlink(f'{box.source}/here')


@case
def a_directory_that_was_granted_for_writing_is_promoted_too(box):
    other = f'{box.home}/other'
    os.mkdir(other)
    with open(f'{other}/f', 'w', encoding='ascii') as f:
        f.write('f')
    box.sh(f'echo x >>{other}/f; echo y >{other}/g; echo z >here',
           '--write', other).expect(0)
    promote(box, '--only', f'{other}/g').expect(0)
    equal(sorted(os.listdir(other)), ['f', 'g'])
    equal(listed(box), [])
    promote(box).expect(0)
    with open(f'{other}/f', encoding='ascii') as f:
        equal(f.read(), 'fx\n')
    equal(listed(box), ['here'])
    box.pinfold('undo').expect(0)
    equal(listed(box), [])
    with open(f'{other}/f', encoding='ascii') as f:
        equal(f.read(), 'f')


@case
def a_source_on_another_mount_keeps_its_originals_out_of_sight(box):
    if os.stat('/dev/shm').st_dev == os.stat(box.top).st_dev:
        raise Skip('/dev/shm is no other file system here')
    with tempfile.TemporaryDirectory(dir='/dev/shm') as top:
        box.source = top
        subprocess.run(['git', 'init', '-q', top], check=True, env=box.env)
        box.write('f', 'f')
        box.write('d/f', 'f')
        before = content(top)
        box.sh('echo x >>f; rm -r d; echo n >new').expect(0)
        promote(box).expect(0)
        equal(read(box, 'f'), b'fx\n')
        equal(sorted(os.listdir(top)), ['.git', 'f', 'new'])
        out = subprocess.run(['git', 'status', '--short'], cwd=top,
                             env=box.env, capture_output=True,
                             check=True).stdout
        equal(out, b'?? f\n?? new\n')
        box.pinfold('undo').expect(0)
        equal(content(top), before)
        promote(box).expect(0)
        box.pinfold('discard', '--yes').expect(0)
        check(not [n for n in os.listdir(f'{top}/.git')
                   if n.startswith('pinfold')], 'the originals stay')


@case
def a_source_on_another_mount_that_is_no_repository_shows_git_nothing(box):
    if os.stat('/dev/shm').st_dev == os.stat(box.top).st_dev:
        raise Skip('/dev/shm is no other file system here')
    with tempfile.TemporaryDirectory(dir='/dev/shm') as top:
        subprocess.run(['git', 'init', '-q', top], check=True, env=box.env)
        box.source = f'{top}/part'
        box.write('f', 'f')
        task = task_of(box.sh('echo x >>f', '--source', '.', '--json'))
        promote(box, task).expect(0)
        out = subprocess.run(['git', 'status', '--short', '-uall'], cwd=top,
                             env=box.env, capture_output=True,
                             check=True).stdout
        equal(out, b'?? part/f\n')
        box.pinfold('undo', task).expect(0)
        equal(os.listdir(box.source), ['f'])


@case
def a_task_that_runs_is_refused(box):
    task = box.start()
    box.exec(task, '--', 'sh', '-c', 'echo x >f').expect(0)
    promote(box, task).expect(125, text='running')
    box.pinfold('stop', task).expect(0)
    promote(box, task).expect(0)
    equal(read(box, 'f'), b'x\n')


@case
def a_promotion_goes_through_no_link(box):
    outside = f'{box.top}/outside'
    os.mkdir(outside)
    box.write('dir/f', 'f')
    box.sh('echo task >dir/f; echo task >dir/g; ln -s /etc/hostname l; '
           'mkdir sub; echo x >sub/x').expect(0)
    os.rename(f'{box.source}/dir', f'{box.source}/was')
    os.symlink(outside, f'{box.source}/dir')
    os.symlink(outside, f'{box.source}/sub')
    promote(box)
    equal(os.listdir(outside), [])
    equal(read(box, 'was/f'), b'f')


@case
def an_editor_that_saves_all_the_time_loses_nothing(box):
    for n in range(60):
        box.write(f'f{n}', 'start')
    box.sh('for f in f*; do echo task >$f; done; rm f7; mkdir f7').expect(0)
    saved, stop = {}, threading.Event()

    def save():
        n = 0
        while not stop.is_set():
            name = f'f{n % 60}'
            box.write('.saving', f'host {n}')
            os.rename(f'{box.source}/.saving', f'{box.source}/{name}')
            saved[name] = f'host {n}'
            n += 1

    thread = threading.Thread(target=save)
    thread.start()
    try:
        r = promote(box)
        check(r.status in (0, 1), r)
    finally:
        stop.set()
        thread.join()
    for name, text in saved.items():
        path = f'{box.source}/{name}'
        held = b'' if os.path.isdir(path) else read(box, name)
        check(held in (b'task\n', text.encode()), f'{name}: {held}')
    # What the host saved last is in the tree, or comes back by the undo.
    box.pinfold('undo')
    for name, text in saved.items():
        check(read(box, name) in (text.encode(), b'start'),
              f'{name}: {read(box, name)}, saved {text}')


@case
def a_source_that_is_gone_or_another_one_is_named(box):
    box.write('f', 'f')
    task = task_of(box.sh('echo x >>f; echo n >new', '--json'))
    os.rename(box.source, f'{box.home}/was')
    promote(box, task, cwd=box.home).expect(125, text='which the task')
    os.mkdir(box.source)
    found = result(box, task, status=1)
    equal(found['f'][0], 'conflict')
    equal(listed(box), ['new'])
    os.rename(box.source, f'{box.home}/second')
    os.rename(f'{box.home}/was', box.source)
    box.pinfold('undo', task).expect(125, text='not the directory any more')
    equal(read(box, 'f'), b'f')


@case
def a_directory_that_the_host_moved_into_place_is_a_conflict(box):
    box.write('a/b/g', 'first')
    box.write('other/b/f', 'second')
    # Within one tick of the clock where the kernel has no finer times (6.13).
    for _ in range(100):
        box.write('a/b/f', 'first')
        box.write('other/b/f', 'second')
        if len({os.stat(f'{box.source}/{d}/b/f').st_ctime_ns
                for d in ('a', 'other')}) == 1:
            break
    time.sleep(0.05)
    for mode in MODES:
        task = task_of(box.sh('echo task >a/b/f; rm a/b/g; echo n >a/b/n',
                              '--workspace', mode, '--json'))
        os.rename(f'{box.source}/a', f'{box.source}/was')
        os.rename(f'{box.source}/other', f'{box.source}/a')
        found = result(box, task, status=1)
        equal(found['a/b/f'][0], 'conflict', mode)
        equal(read(box, 'a/b/f'), b'second', mode)
        os.rename(f'{box.source}/a', f'{box.source}/other')
        os.rename(f'{box.source}/was', f'{box.source}/a')
        equal(read(box, 'a/b/g'), b'first', mode)


@case
def a_path_of_held_that_was_not_changed_ends_it_before_anything_comes(box):
    box.sh('echo x >f; mkdir .vscode; echo {} >.vscode/tasks.json').expect(0)
    for wrong in ('nosuch', '.vscode/nosuch', '.vscode/**'):
        promote(box, '--held', wrong).expect(125, text=f'--held "{wrong}"')
        check(not os.path.exists(f'{box.source}/f'), wrong)
    promote(box, '--held', '.vscode').expect(0)
    equal((read(box, 'f'), read(box, '.vscode/tasks.json')), (b'x\n', b'{}\n'))


@case
def parts_of_a_new_directory_can_be_promoted_one_by_one(box):
    box.write('d/f', 'f')
    task = task_of(box.sh('mkdir -p n/m; for f in 1 2 3; do echo $f >n/m/$f; '
                          'done; echo x >>d/f; chmod 700 d; echo y >d/y',
                          '--json'))
    for name in ('n/m/1', 'd/y', 'n/m/2', 'd'):
        promote(box, '--only', name).expect(0)
    equal(pending(box, task), {'n/m/3'})
    promote(box).expect(0)
    equal(pending(box, task), set())
    for _ in range(5):
        box.pinfold('undo').expect(0)
    equal(listed(box), ['d'])
    equal(read(box, 'd/f'), b'f')
    equal(os.stat(f'{box.source}/d').st_mode & 0o777, 0o755)
    promote(box).expect(0)


@case
def a_task_that_is_promoted_whole_is_removed_when_undo_is_given_up(box):
    task = task_of(box.sh('echo x >f; echo y >g', '--json'))
    promote(box, '--only', 'f').expect(0)
    box.pinfold('rm', task).expect(125, text='holds changes')
    promote(box).expect(0)
    box.pinfold('undo').expect(0)
    box.pinfold('rm', task).expect(125, text='holds changes')
    promote(box).expect(0)
    box.pinfold('rm', task).expect(125, text=f'pinfold undo {task} needs it')
    box.pinfold('rm', '--changes', task).expect(0)
    equal(listed(box), ['f', 'g'])
    check(not os.path.exists(box.folder(task)), 'the task is there')


@case
def a_task_without_changes_says_so(box):
    for words in ((), ('--source', 'none')):
        task = task_of(box.sh('true', '--json', *words))
        promote(box, task).expect(0, text='has no changes to promote')
        box.pinfold('undo', task).expect(125, text='nothing to undo')


@case
def wide_and_deep_trees_come_and_go_back(box):
    task = task_of(box.run('--json', '--', 'python3', '-c', """
import os
os.mkdir('wide')
for n in range(3000):
    open(f'wide/{n}', 'w').close()
for n in range(400):
    os.mkdir('a' * 40)
    os.chdir('a' * 40)
open('leaf', 'w').close()
""").expect(0))
    promote(box).expect(0)
    equal(len(os.listdir(f'{box.source}/wide')), 3000)
    equal(pending(box, task), set())
    box.pinfold('undo').expect(0)
    equal(listed(box), [])


if __name__ == '__main__':
    sys.exit(main())

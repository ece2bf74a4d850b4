#!/usr/bin/python3
# limit: 300 s
"""The workspace: what the command sees and changes, and that the host's files
stay as they are."""
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from box import (Failure, PINFOLD, ROOT, SITUATION, Skip, case, check, equal,
                 main, tree_state, within)

CHANGE = '''
    set -e
    echo new >new; echo more >>kept; rm gone; chmod 600 mode; mkdir d; echo x >d/f
    rm -r folder; mkdir folder; echo y >folder/other; ln -s /etc/passwd link
    mv renamed renamed-now
'''
CHANGED = {'new': 'added', 'kept': 'modified', 'gone': 'deleted',
           'mode': 'modified', 'd': 'added', 'd/f': 'added', 'link': 'added',
           'folder/other': 'added', 'folder/f': 'deleted',
           'renamed': 'deleted', 'renamed-now': 'added'}


def plant(box):
    for name in ('kept', 'gone', 'mode', 'folder/f', 'renamed', 'same'):
        box.write(name, name + '\n')


def listed(box, task):
    """Mapping of path to what happened to it, from diff --json."""
    return {c['path']: c['kind'] for c in box.changes(task)['changes']}


def change_in(box, mode, *words):
    plant(box)
    before = tree_state(box.home)
    r = box.sh(CHANGE, '--workspace', mode, '--json', *words).expect(0)
    after = tree_state(box.home)
    for path in set(before) | set(after):
        if b'/.cache' in path or b'/.local' in path:
            continue
        equal(after.get(path), before.get(path), path)
    return r


def judge_changes(box, r, mode):
    record = r.json()
    equal(record['workspace'], mode)
    found = listed(box, record['id'])
    for path, how in CHANGED.items():
        equal(found.get(path), how, path)
    check('same' not in found, found)
    counts = record['changes']
    equal(counts['added'] + counts['modified'] + counts['deleted'],
          len(found), 'the record counts what diff lists')
    within(r.text(), f'{len(found)} files changed; pinfold diff '
           f'{record["id"]}')


@case
def an_overlay_holds_changes_back_and_lists_each(box):
    judge_changes(box, change_in(box, 'overlay'), 'overlay')


@case
def a_copy_holds_changes_back_and_lists_each(box):
    judge_changes(box, change_in(box, 'copy'), 'copy')


@case
def auto_takes_an_overlay_where_it_can(box):
    box.write('f')
    r = box.sh('echo x >f', '--json').expect(0)
    equal(r.json()['workspace'], 'overlay')


@case
def diff_lists_and_sums_what_changed(box):
    plant(box)
    task = box.sh('echo more >>kept; rm gone; echo n >new',
                  '--json').expect(0).json()['id']
    r = box.pinfold('diff', task).expect(0)
    equal(sorted(r.out.splitlines()), [b'A  new', b'D  gone', b'M  kept'])
    r = box.pinfold('diff', '--stat', task).expect(0)
    for name in (b'kept', b'gone', b'new'):
        within(r.out, name)
    # Without a task it is the last one of this source.
    equal(box.pinfold('diff', '--stat').expect(0).out, r.out)


@case
def discard_removes_the_changes_and_keeps_the_record(box):
    plant(box)
    task = box.sh('echo more >>kept; mkdir d; chmod 0 d',
                  '--json').expect(0).json()['id']
    check('upper' in os.listdir(box.folder(task)), 'changes are kept')
    box.pinfold('discard', '--yes', task).expect(0)
    equal(box.files_left_of(task), [])
    equal(box.record(task)['id'], task)
    r = box.pinfold('diff', task)
    check(b'kept' not in r.out, str(r))


@case
def without_changes_only_the_record_is_kept(box):
    plant(box)
    task = box.sh('cat kept; echo x >t; rm t', '--json').expect(0).json()['id']
    box.gone(task)


@case
def with_source_none_the_command_has_an_empty_place(box):
    r = box.sh('pwd; ls -A | wc -l; echo x >f && cat f', '--source', 'none',
               '--json', cwd='/').expect(0)
    words = r.out.decode().split()
    equal(words[1:], ['0', 'x'])
    record = r.json()
    equal((record['source'], record['workspace']), (None, 'none'))
    box.gone(record['id'])


@case
def a_source_that_is_a_file_is_refused(box):
    path = box.write('file', 'x')
    box.run('--source', path, '--', 'true').expect(125, text='file')


@case
def a_source_that_is_a_socket_or_a_fifo_is_refused_at_once(box):
    os.mkfifo(f'{box.top}/fifo')
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(f'{box.top}/sock')
        for name in ('fifo', 'sock'):
            r = box.run('--source', f'{box.top}/{name}', '--', 'true')
            r.expect(125, text=name)


@case
def the_whole_file_system_and_the_home_are_refused_with_both_commands(box):
    for cwd in ('/', box.home, box.top):
        r = box.run('--', 'true', cwd=cwd).expect(125)
        within(r.text(), 'pinfold run --source DIR -- CMD')
        within(r.text(), 'pinfold run --source none -- CMD')
    box.run('--source', '/', '--', 'true').expect(125, text='(/)')


@case
def the_home_can_be_a_source_when_it_is_named(box):
    """Then it is seen at its own path, with a private HOME elsewhere or none."""
    with open(f'{box.home}/note', 'w', encoding='ascii') as f:
        f.write('note')
    r = box.sh('cat note; echo x >"$HOME/y"', '--source', box.home,
               cwd=box.home)
    if r.status == 125:
        within(r.text(), box.home)
        return 'refused, and named'
    r.expect(0)
    within(r.out, b'note')
    check(not os.path.exists(f'{box.home}/y'), 'the home was written')
    return 'shown'


@case
def a_working_directory_that_was_removed_is_a_clear_error(box):
    os.mkdir(f'{box.source}/d')
    process = box.spawn(['sh', '-c', 'rmdir ../d; exec "$0" run -- true',
                         PINFOLD], cwd=f'{box.source}/d')
    box.finish(process).expect(125, text='working directory')


@case
def an_empty_source_and_one_with_20000_files_start_alike(box):
    def start(where):
        times = []
        for _ in range(5):
            times.append(box.run('--source', where, '--',
                                 'true').expect(0).seconds)
        return sorted(times)[2]

    big, empty = f'{box.top}/big', f'{box.top}/empty'
    os.mkdir(empty)
    for i in range(200):
        os.makedirs(f'{big}/d{i}')
        for k in range(100):
            with open(f'{big}/d{i}/f{k}', 'wb'):
                pass
    t_empty, t_big = start(empty), start(big)
    check(t_big < 2 * t_empty + 0.1, f'{t_empty:.3f} s, {t_big:.3f} s')
    r = box.sh('find . -type f | wc -l; echo x >>d7/f7; rm -r d9', '--source',
               big, '--json').expect(0)
    equal(r.out.strip(), b'20000')
    # A directory that was deleted counts as one.
    changes = {'added': 0, 'deleted': 1, 'held': 0, 'modified': 1}
    equal(r.json()['changes'], changes)
    r = box.sh('rm -r d9; echo x >>d7/f7', '--source', big, '--workspace',
               'copy', '--json').expect(0)
    equal(r.json()['changes'], changes)
    check(os.path.exists(f'{big}/d9/f0'), 'the host lost a file')
    return f'{t_empty * 1000:.0f} ms, {t_big * 1000:.0f} ms'


ODD = [b'a\nb', b'\xff\xfe', b' lead', b'-n', b'"q"', b'x' * 255, b'\x1b[31m',
       'ü'.encode(), b'a\\b', b'$(x)', b'\x7f']


@case
def odd_names_are_kept_listed_and_discarded(box):
    for mode in ('overlay', 'copy'):
        for i, name in enumerate(ODD):
            box.write(name, f'{i}\n')
        script = 'import os\nfor n in sorted(os.listdir(b".")):\n' \
            '  open(n, "ab").write(b"more")\n' \
            '  open(n[:200] + b"+", "wb").write(b"new")\n'
        r = box.run('--workspace', mode, '--json', '--', 'python3', '-c',
                    script).expect(0)
        record = r.json()
        equal((record['changes']['modified'], record['changes']['added']),
              (len(ODD), len(ODD)), mode)
        equal(len(box.changes(record['id'])['changes']), 2 * len(ODD))
        out = box.pinfold('diff', record['id']).expect(0).out
        check(b'\x1b' not in out, 'an escape sequence is passed on')
        out = box.pinfold('diff', '--stat', record['id']).expect(0).out
        check(b'\x1b' not in out, 'an escape sequence is passed on')
        box.pinfold('discard', '--yes', record['id']).expect(0)
        box.gone(record['id'])


@case
def a_source_path_with_odd_bytes_serves(box):
    odd = os.fsencode(box.top) + b'/a b\nc\xff'
    os.mkdir(odd)
    r = box.run('--json', '--', 'sh', '-c', 'echo x >f; pwd', cwd=odd).expect(0)
    equal(r.out, odd + b'\n')
    equal(os.listdir(odd), [])


@case
def symbolic_links_keep_their_targets_and_lead_nowhere(box):
    with open(f'{box.top}/outside', 'w', encoding='ascii') as f:
        f.write('secret')
    os.symlink(f'{box.top}/outside', f'{box.source}/out')
    os.symlink('/nowhere', f'{box.source}/dangling')
    for mode in ('overlay', 'copy'):
        box.sh('test -L out && test -L dangling && ! cat out; echo x >out',
               '--workspace', mode)
    with open(f'{box.top}/outside', encoding='ascii') as f:
        equal(f.read(), 'secret')


@case
def another_mount_below_the_source_is_named_and_can_be_granted(box):
    if not ROOT:
        raise Skip('only root can mount')
    mount = f'{box.source}/vol'
    os.mkdir(mount, 0o755)
    subprocess.run(['mount', '-t', 'tmpfs', '-o', 'mode=1777', 'none', mount],
                   check=True)
    try:
        box.write('vol/inner', 'inner\n')
        for mode in ('overlay', 'copy'):
            r = box.sh('ls vol; touch f', '--workspace', mode, '--json')
            r.expect(0, out=b'')
            within(r.text(), f'pinfold: note: {mount} below the source is '
                   'another mount and was seen empty: '
                   f'--write {mount} shows what is in it')
            equal([c['path'] for c in box.changes(r.json()['id'])['changes']],
                  ['f'], mode)
        r = box.sh('cat vol/inner; touch vol/new', '--write', mount, '--json')
        r.expect(0, out=b'inner\n')
        check('another mount' not in r.text(), r)
        equal([c['path'] for c in box.changes(r.json()['id'])['changes']],
              [f'{mount}/new'])
    finally:
        subprocess.run(['umount', mount], check=True)


@case
def a_mount_below_the_source_that_cannot_map_ids_is_no_hindrance(box):
    """An overlay is one on every kernel, a tmpfs on those before 6.3."""
    if not ROOT:
        raise Skip('only root can mount')
    for name in ('lower', 'upper', 'work'):
        os.mkdir(f'{box.top}/{name}')
    mount = f'{box.source}/vol'
    os.mkdir(mount)
    subprocess.run(['mount', '-t', 'overlay', '-o',
                    f'lowerdir={box.top}/lower,upperdir={box.top}/upper,'
                    f'workdir={box.top}/work', 'none', mount], check=True)
    try:
        r = box.sh('ls vol; touch f', '--json').expect(0, out=b'')
        equal((r.json()['workspace'],
               [c['path'] for c in box.changes(r.json()['id'])['changes']]),
              ('overlay', ['f']))
    finally:
        subprocess.run(['umount', mount], check=True)


@case
def a_directory_of_the_source_is_renamed_by_mv_and_in_a_copy_by_anybody(box):
    box.write('d/f', 'x')
    rename = 'python3 -c "import os; os.rename(\'d\', \'e\')"'
    box.sh('mv d e && cat e/f').expect(0, out=b'x')
    r = box.sh(rename).expect(1)
    within(r.text(), 'Invalid cross-device link')
    box.sh(f'{rename} && cat e/f', '--workspace', 'copy').expect(0, out=b'x')
    box.sh('mkdir own && ' + rename.replace("'d'", "'own'")).expect(0)


@case
def a_source_below_var_tmp_is_at_its_own_path(box):
    with tempfile.TemporaryDirectory(dir='/var/tmp') as top:
        if os.path.realpath(top) != top:
            raise Skip('/var/tmp is a link here')
        with open(f'{top}/f', 'w', encoding='ascii') as f:
            f.write('x')
        r = box.run('--source', top, '--', 'sh', '-c', 'pwd; cat f; echo >g')
        equal(r.expect(0).out.decode(), f'{top}\nx')
    box.sh('touch /var/tmp/f && ls /tmp/f').expect(0, out=b'/tmp/f\n')


@case
def a_source_that_was_emptied_is_told_as_deleted(box):
    box.write('d/f', 'x')
    box.write('g', 'x')
    for mode in ('overlay', 'copy'):
        task = box.sh('rm -r d g', '--workspace', mode,
                      '--json').expect(0).json()['id']
        equal(sorted(c['path'] for c in box.changes(task)['changes']),
              ['d', 'g'], mode)


@case
def a_source_given_through_a_link_is_shown_at_its_real_path(box):
    os.symlink(box.source, f'{box.top}/link')
    r = box.run('--source', f'{box.top}/link', '--', 'pwd', cwd='/').expect(0)
    equal(r.out.decode(), f'{box.source}\n')


def second_group():
    groups = [g for g in os.getgroups() if g != os.getegid()]
    if SITUATION == 'userns' or not groups:
        raise Skip('this caller has one group')
    return groups[0]


@case
def files_of_a_supplementary_group_can_be_changed(box):
    group = second_group()
    for name in ('f', 'd/g'):
        os.chown(box.write(name, 'x\n', 0o664), -1, group)
    os.chown(f'{box.source}/d', -1, group)
    os.chmod(f'{box.source}/d', 0o2775)
    r = box.sh('echo y >>f; echo y >>d/g; echo z >d/new', '--workspace',
               'copy', '--json').expect(0)
    equal(r.json()['changes']['modified'], 2)


def given_away(box):
    """A source with files of root's, as an ordinary user finds them."""
    if ROOT:
        for name, mode in (('other', 0o666), ('d/f', 0o666)):
            os.chown(box.write(name, 'x\n', mode), 12345, 12346)
        os.chown(f'{box.source}/d', 12345, 12346)
        os.chmod(f'{box.source}/d', 0o2777)
        return
    raise Skip('only root can give files away')


@case
def files_of_other_owners_can_be_changed_as_root(box):
    given_away(box)
    before = tree_state(box.source)
    for mode in ('overlay', 'copy'):
        r = box.sh('echo y >>other; echo y >>d/f; echo z >d/new',
                   '--workspace', mode, '--json')
        r.expect(0)
        equal(r.json()['changes']['modified'], 2, mode)
    equal(tree_state(box.source), before)


@case
def a_source_of_another_owner_is_copied_by_auto(box):
    """/usr/share's files belong to root, whom an ordinary caller is not."""
    if ROOT:
        raise Skip('root owns it')
    r = box.sh('echo x >>COPYING 2>/dev/null || : >new', '--source',
               '/usr/share/common-licenses', '--json',
               cwd='/usr/share/common-licenses')
    r.expect(0, text='copied, because')
    equal(r.json()['workspace'], 'copy')
    check(r.json()['changes']['added'] >= 1, r.json()['changes'])


@case
def set_group_id_directories_serve(box):
    os.mkdir(f'{box.source}/d')
    os.chmod(f'{box.source}/d', 0o2775)
    os.chmod(box.source, 0o2755)
    for mode in ('overlay', 'copy'):
        box.sh('echo x >d/f; mkdir d/e; stat -c %a d', '--workspace',
               mode).expect(0)


@case
def hard_links_inside_the_source_stay_one_file_in_a_copy(box):
    os.link(box.write('a', 'x\n'), f'{box.source}/b')
    box.sh('test "$(stat -c %i a)" = "$(stat -c %i b)"', '--workspace',
           'copy').expect(0)


@case
def unreadable_files_do_not_stop_a_run(box):
    if ROOT:
        raise Skip('root reads every file')
    box.write('closed', 'x', 0)
    os.mkdir(f'{box.source}/d', 0)
    r = box.sh('echo x >new; ls', '--json').expect(0)
    equal(r.json()['changes']['added'], 1)
    r = box.sh('echo x >new', '--workspace', 'copy', '--json')
    if r.status:
        within(r.text(), 'closed')
    os.chmod(f'{box.source}/d', 0o700)


# ---- grants ----

@case
def a_directory_granted_for_reading_can_be_read_only(box):
    other = f'{box.top}/other'
    os.makedirs(f'{other}/sub')
    with open(f'{other}/sub/f', 'w', encoding='ascii') as f:
        f.write('text')
    before = tree_state(other)
    box.sh(f'cat {other}/sub/f; ! echo x >{other}/new; ! echo x >{other}/sub/f;'
           f' ! rm {other}/sub/f; test -e {other}/sub/f && test ! -e '
           f'{box.top}/run', '--read', other).expect(0)
    equal(tree_state(other), before)


@case
def a_file_granted_for_reading_is_the_only_one_shown(box):
    for name in ('one', 'two'):
        with open(f'{box.top}/{name}', 'w', encoding='ascii') as f:
            f.write(name)
    box.sh(f'cat {box.top}/one; ! cat {box.top}/two; ! echo x >{box.top}/one',
           '--read', f'{box.top}/one').expect(0, out=b'one')


@case
def a_directory_granted_for_writing_is_written_in_a_view(box):
    for name in ('w1', 'w2'):
        os.mkdir(f'{box.top}/{name}')
        with open(f'{box.top}/{name}/f', 'w', encoding='ascii') as f:
            f.write('text')
    before = [tree_state(f'{box.top}/{n}') for n in ('w1', 'w2')]
    r = box.sh(f'echo x >>{box.top}/w1/f && rm {box.top}/w2/f && '
               f'echo n >{box.top}/w2/new && cat {box.top}/w1/f', '--write',
               f'{box.top}/w1', '--write', f'{box.top}/w2', '--json').expect(0)
    equal([tree_state(f'{box.top}/{n}') for n in ('w1', 'w2')], before)
    record = r.json()
    equal(record['changes'],
          {'added': 1, 'deleted': 1, 'held': 0, 'modified': 1})
    out = box.pinfold('diff', '--stat', record['id']).expect(0).out
    for name in (f'{box.top}/w1/f', f'{box.top}/w2/f', f'{box.top}/w2/new'):
        within(out, name.encode())
    box.pinfold('discard', '--yes', record['id']).expect(0)
    box.gone(record['id'])


@case
def a_file_granted_for_writing_is_refused_and_named(box):
    with open(f'{box.top}/one', 'w', encoding='ascii') as f:
        f.write('x')
    box.run('--write', f'{box.top}/one', '--',
            'true').expect(125, text=f'{box.top}/one')


@case
def a_missing_grant_is_an_error_that_names_it(box):
    for option in ('--read', '--write'):
        box.run(option, f'{box.top}/no-such', '--',
                'true').expect(125, text='no-such')


@case
def a_grant_through_a_link_shows_what_the_link_leads_to(box):
    os.mkdir(f'{box.top}/real')
    with open(f'{box.top}/real/f', 'w', encoding='ascii') as f:
        f.write('text')
    os.symlink(f'{box.top}/real', f'{box.top}/link')
    box.sh(f'cat {box.top}/real/f', '--read',
           f'{box.top}/link').expect(0, out=b'text')
    os.symlink('/nowhere', f'{box.top}/dangling')
    box.run('--read', f'{box.top}/dangling', '--',
            'true').expect(125, text='dangling')


@case
def the_home_and_the_whole_system_cannot_be_granted(box):
    for path in ('/', box.home, box.top):
        for option in ('--read', '--write'):
            r = box.run(option, path, '--', 'true').expect(125)
            within(r.text(), path)


@case
def the_state_directory_is_no_source_and_no_grant(box):
    box.sh('echo x >f').expect(0)
    says = "pinfold's own state directory"
    for path in (box.state, f'{box.state}/tasks'):
        r = box.run('--source', path, '--', 'ls', timeout=20)
        r.expect(125, text=f'--source: "{path}" lies in {says}')
        for option in ('--read', '--write'):
            r = box.run(option, path, '--', 'ls').expect(125)
            # Root's is in the list of what holds secrets.
            check(f'"{path}" lies in {says}' in r.text() or
                  f'"{path}" holds secrets' in r.text(), r)
    above = os.path.dirname(box.state)
    for option in ('read', 'write'):
        if ROOT and option == 'write':
            continue
        box.run(f'--{option}', above, '--', 'ls').expect(
            125, text=f'files.{option}: "{above}" holds {says}')


@case
def sockets_and_fifos_below_grants_and_source_are_dead(box):
    other = f'{box.top}/other'
    os.mkdir(other)
    arrived, listeners, fifos = [], [], []
    for folder in (other, box.source):
        s = socket.socket(socket.AF_UNIX)
        s.bind(f'{folder}/sock')
        os.chmod(f'{folder}/sock', 0o777)
        s.listen(8)
        s.setblocking(False)
        listeners.append(s)
        os.mkfifo(f'{folder}/fifo')
        os.chmod(f'{folder}/fifo', 0o666)
        fifos.append(os.open(f'{folder}/fifo', os.O_RDWR | os.O_NONBLOCK))
    script = '''
import os, socket, sys
for folder in sys.argv[1:]:
    s = socket.socket(socket.AF_UNIX)
    print(s.connect_ex(folder + "/sock") != 0)
    try:
        fd = os.open(folder + "/fifo", os.O_WRONLY | os.O_NONBLOCK)
        os.write(fd, b"x")
    except OSError:
        pass
'''
    for option in ('--read', '--write'):
        r = box.run(option, other, '--', 'python3', '-c', script, other,
                    box.source).expect(0)
        equal(r.out.split(), [b'True', b'True'], option)
    for s in listeners:
        try:
            s.accept()
            arrived.append('a connection')
        except BlockingIOError:
            pass
        s.close()
    for fd in fifos:
        try:
            if os.read(fd, 10):
                arrived.append('a byte')
        except BlockingIOError:
            pass
        os.close(fd)
    equal(arrived, [])
    for name in ('sock', 'fifo'):
        box.run('--read', f'{other}/{name}', '--',
                'true').expect(125, text=name)


@case
def a_thousand_read_grants_are_made_or_refused_clearly(box):
    words = []
    for i in range(1000):
        os.mkdir(f'{box.top}/g{i:04}')
        words += ['--read', f'{box.top}/g{i:04}']
    with open(f'{box.top}/g0999/f', 'w', encoding='ascii') as f:
        f.write('last')
    r = box.sh(f'cat {box.top}/g0999/f; ls -d {box.top}/g* | wc -l', *words)
    if r.status == 125:
        check(r.text().startswith('pinfold: '), str(r))
        return f'refused: {r.text().strip()}'
    r.expect(0, out=b'last1000\n')
    return f'{r.seconds:.1f} s'


@case
def a_grant_below_the_source_and_one_above_another_serve(box):
    os.makedirs(f'{box.top}/a/b/c')
    for path in ('a/f', 'a/b/f', 'a/b/c/f'):
        with open(f'{box.top}/{path}', 'w', encoding='ascii') as f:
            f.write(path + '\n')
    r = box.sh(f'cat {box.top}/a/f {box.top}/a/b/c/f; echo x >{box.top}/a/b/c/n;'
               f' ! echo x >{box.top}/a/n', '--read', f'{box.top}/a',
               '--write', f'{box.top}/a/b/c').expect(0)
    equal(r.out, b'a/f\na/b/c/f\n')
    check(not os.path.exists(f'{box.top}/a/b/c/n'), 'the host was written')


@case
def denied_files_are_not_there_and_are_left_alone(box):
    box.write('.env', 'secret')
    box.write('keys/one/k', 'secret')
    box.write('plain', 'plain')
    policy = f'{box.top}/p.yaml'
    with open(policy, 'w', encoding='ascii') as f:
        f.write('version: 1\nfiles: {deny: [.env, keys/one]}\n')
    for mode in ('overlay', 'copy'):
        r = box.sh('cat plain; ! cat .env; ! ls keys/one; '
                   'find . -name k; grep -r secret . ; :', '--policy', policy,
                   '--workspace', mode, '--json').expect(0)
        equal(r.out, b'plain', mode)
        record = r.json()
        equal(record['changes'],
              {'added': 0, 'deleted': 0, 'held': 0, 'modified': 0},
              f'{mode}: hidden files are no changes')
        box.gone(record['id'])


@case
def a_grant_inside_the_source_shows_no_denied_file(box):
    """It lies over the layer that hides: forbid beats permit."""
    box.write('sub/.env', 'secret')
    box.write('sub/in/plain', 'plain')
    policy = f'{box.top}/p.yaml'
    for deny, grant in (('sub/.env', 'sub'), ('sub', 'sub/in'),
                        (f'{box.source}/sub/.env', 'sub')):
        for how in ('read', 'write'):
            with open(policy, 'w', encoding='ascii') as f:
                f.write(f'version: 1\nfiles:\n  deny: [{deny}]\n'
                        f'  {how}: [{box.source}/{grant}]\n')
            box.sh('cat sub/.env', '--policy', policy).expect(125, out=b'')
    # One that holds nothing denied is as good as any.
    with open(policy, 'w', encoding='ascii') as f:
        f.write(f'version: 1\nfiles:\n  deny: [sub/.env]\n'
                f'  read: [{box.source}/sub/in]\n')
    r = box.sh('cat sub/in/plain; cat sub/.env', '--policy', policy)
    equal((r.status, r.out), (1, b'plain'))


@case
def changes_on_the_host_during_a_run_do_no_harm(box):
    box.write('f', 'old\n')
    process = box.spawn([PINFOLD, 'run', '--json', '--', 'sh', '-c',
                         'echo in >mine; echo ready; read x; cat f; cat mine'],
                        stdin=subprocess.PIPE)
    equal(process.stdout.readline(), b'ready\n')
    with open(f'{box.source}/g', 'w', encoding='ascii') as f:
        f.write('host')
    r = box.finish(process, b'x\n').expect(0, out=b'old\nin\n')
    equal(listed(box, r.json()['id']).get('mine'), 'added')
    equal(sorted(os.listdir(box.source)), ['f', 'g'])


if __name__ == '__main__':
    sys.exit(main())

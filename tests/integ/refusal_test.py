#!/usr/bin/python3
# limit: 300 s
"""Bad input and machines that lack something: a clear error, status 125, and
nothing left behind."""
import errno
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import box as b
from box import (Failure, PINFOLD, ROOT, SITUATION, Skip, case, check, equal,
                 main, patient, processes_with, wait_for, within)


def tasks(box):
    path = f'{box.state}/tasks'
    return set(os.listdir(path)) if os.path.isdir(path) else set()


def refused(r, *texts):
    r.expect(125, out=b'')
    lines = r.text().splitlines()
    check(lines and all(x.startswith(('pinfold: ', '{')) for x in lines),
          f'{lines}')
    check('refused' in r.text() or len(lines[0]) > 20, lines)
    for text in texts:
        within(r.text(), text)


def policy(box, text):
    path = f'{box.top}/policy.yaml'
    with open(path, 'wb') as f:
        f.write(text if isinstance(text, bytes) else text.encode())
    return path


@case
def a_policy_of_10_megabytes_is_refused_at_once(box):
    path = policy(box, 'version: 1\n' + '# comment\n' * (1 << 20))
    r = box.run('--policy', path, '--', 'true', timeout=30)
    refused(r, path)
    check(r.seconds < patient(10), r.seconds)
    path = policy(box, 'version: 1\nfiles: {read: [' +
                  ','.join(f'/d{i}' for i in range(100000)) + ']}\n')
    refused(box.run('--policy', path, '--', 'true', timeout=30))


@case
def a_policy_that_cannot_be_read_is_refused_and_named(box):
    os.mkdir(f'{box.top}/dir')
    refused(box.run('--policy', f'{box.top}/dir', '--', 'true'),
            f'{box.top}/dir')
    os.mkfifo(f'{box.top}/fifo')
    refused(box.run('--policy', f'{box.top}/fifo', '--', 'true', timeout=20),
            f'{box.top}/fifo')
    refused(box.run('--policy', '/dev/zero', '--', 'true', timeout=20))
    if not ROOT and os.geteuid() != 0:
        path = policy(box, 'version: 1\n')
        os.chmod(path, 0)
        refused(box.run('--policy', path, '--', 'true'), path)


@case
def what_the_sandbox_has_of_its_own_is_refused_before_it_is_copied(box):
    for path in '/tmp', '/etc', '/usr':
        r = box.run('--source', path, '--workspace', 'copy', '--', 'true',
                    timeout=20)
        refused(r, f'{path} cannot be the source', '--source none')
    r = box.run('--read', '/tmp', '--', 'true')
    refused(r, '/tmp')


@case
def operands_that_do_not_fit_are_named(box):
    for label in 'x', '=x', '':
        refused(box.run('--label', label, '--', 'true'), 'KEY=VALUE')
    path = f'{box.top}/file'
    open(path, 'w').close()
    refused(box.run('--write', path, '--', 'true'), path, 'no directory')


@case
def faults_in_a_policy_have_line_column_and_a_suggestion(box):
    rows = [
        ('version: 1\nlimits:\n  memroy: 1GiB\n', ':3:3', 'memory'),
        ('version: 1\nfile: {read: []}\n', ':2:1', 'files'),
        ('version: 1\nlimits: {memory: lots}\n', ':2:', 'lots'),
        ('version: 2\n', ':1:', 'version'),
        ('limits: {}\n', '', 'version'),
        ('version: 1\nversion: 1\n', ':2:1', 'version'),
        ('version: 1\nlimits: &a {memory: 1GiB}\n', ':2:', 'anchor'),
        ('version: 1\nenv: {set: {A: !!str b}}\n', ':2:', 'tag'),
        ('version: 1\nnetwork: {allow: []}\n', ':2:', 'network'),
        ('version: 1\nfiles: {read: [relative]}\n', ':2:', 'relative'),
        ('version: 1\n\tlimits: {}\n', ':2:', ''),
        ('', '', 'version'),
        (b'version: 1\nenv: {set: {A: "\xff\xfe"}}\n', '', ''),
        (b'version: 1\0\n', '', ''),
    ]
    for text, place, word in rows:
        path = policy(box, text)
        r = box.run('--policy', path, '--', 'true')
        refused(r, path + place, word)


@case
def a_refused_policy_leaves_no_task(box):
    before = tasks(box)
    path = policy(box, 'version: 9\n')
    mine = 0
    for _ in range(5):
        refused(box.run('--policy', path, '--', 'true'))
    for task in tasks(box) - before:
        try:
            mine += box.record(task).get('source') == box.source
        except (OSError, ValueError):
            pass
    equal(mine, 0)


@case
def a_source_that_the_kernel_makes_up_is_refused_by_name(box):
    for path in ('/proc', '/proc/sys', '/sys', '/sys/fs', '/dev/pts'):
        refused(box.run('--source', path, '--', 'true'), f'"{path}',
                'cannot be a source', '--source none')
    refused(box.run('--', 'true', cwd='/sys/kernel'), '"/sys/kernel"')


@case
def a_report_that_cannot_be_written_is_no_success(box):
    r = box.run('--json=/dev/full', '--', 'true').expect(125)
    within(r.text(), 'cannot write --json: No space left on device')


@case
def a_policy_is_never_taken_from_the_source(box):
    box.write('policy.yaml', 'version: 1\nlimits: {memory: nonsense}\n')
    box.write('.pinfold.yaml', 'nonsense')
    box.run('--', 'true').expect(0)


@case
def the_users_policy_is_in_force_without_an_option(box):
    os.makedirs(f'{box.home}/.config/pinfold')
    path = f'{box.home}/.config/pinfold/policy.yaml'
    with open(path, 'w', encoding='ascii') as f:
        f.write('version: 1\nenv: {set: {MINE: "yes"}}\n')
    box.sh('echo $MINE').expect(0, out=b'yes\n')
    with open(path, 'w', encoding='ascii') as f:
        f.write('version: 1\nenv: {set: {MINE: "changed"}}\n')
    box.sh('echo $MINE').expect(0, out=b'changed\n')
    with open(path, 'w', encoding='ascii') as f:
        f.write('nonsense')
    refused(box.run('--', 'true'), path)


@case
def a_broken_policy_cache_is_not_believed(box):
    path = policy(box, 'version: 1\nenv: {set: {A: "b"}}\n')
    box.sh('echo $A', '--policy', path).expect(0, out=b'b\n')
    cache = f'{box.home}/.cache/pinfold/policy'
    for name in os.listdir(cache):
        with open(f'{cache}/{name}', 'wb') as f:
            f.write(b'{"version":1}')
    box.sh('echo $A', '--policy', path).expect(0, out=b'b\n')
    shutil.rmtree(f'{box.home}/.cache')
    with open(f'{box.home}/.cache', 'w', encoding='ascii'):
        pass
    box.sh('echo $A', '--policy', path).expect(0, out=b'b\n')


@case
def a_state_directory_that_cannot_be_written_is_refused_and_named(box):
    if os.geteuid() == 0:
        raise Skip('root writes everywhere')
    os.mkdir(f'{box.top}/closed', 0o500)
    env = {**box.env, 'XDG_STATE_HOME': f'{box.top}/closed'}
    refused(box.run('--', 'true', env=env), f'{box.top}/closed')
    env = {**box.env, 'XDG_STATE_HOME': '/proc'}
    refused(box.run('--', 'true', env=env), '/proc')
    env = {**box.env, 'XDG_STATE_HOME': box.write('file', '')}
    refused(box.run('--', 'true', env=env), 'file')


@case
def a_state_directory_open_to_others_is_refused_with_the_fix(box):
    if os.geteuid() == 0:
        raise Skip("root's state directory is the machine's own")
    os.makedirs(f'{box.top}/open/pinfold')
    os.chmod(f'{box.top}/open/pinfold', 0o777)
    env = {**box.env, 'XDG_STATE_HOME': f'{box.top}/open'}
    refused(box.run('--', 'true', env=env), 'chmod 700')


def in_namespace(box, setup, *words, propagate='private'):
    """Runs pinfold in a mount (and, but for root, user) namespace."""
    user = [] if ROOT else ['--user', '--map-root-user']
    script = setup + '\nexec "$@"'
    argv = ['unshare', *user, '--mount', f'--propagation={propagate}', '--',
            'sh', '-ec', script, 'sh', PINFOLD, *words]
    return box.finish(box.spawn(argv), timeout=60)


def full_disk(box, size, *words):
    state = f'{box.top}/small'
    os.makedirs(state, exist_ok=True)
    if ROOT:
        where = '/var/lib/pinfold'
        os.makedirs(where, 0o700, exist_ok=True)
    else:
        where = state
    # Inside a user namespace /var/lib may not be writable: XDG_STATE_HOME.
    setup = f'mount -t tmpfs -o size={size},mode=700 tmpfs {where}; ' \
        f'mkdir -p {where}/pinfold; export XDG_STATE_HOME={where}'
    if not ROOT and SITUATION == 'userns':
        setup = f'mkdir -p /var/lib/pinfold; mount -t tmpfs -o ' \
            f'size={size},mode=700 tmpfs /var/lib/pinfold'
    return in_namespace(box, setup, *words)


@case
def a_full_state_disk_is_refused(box):
    r = full_disk(box, '4k', 'run', '--', 'true')
    check(r.status == 125, str(r))
    check(re.search('space|full|No space', r.text()), str(r))
    left = [p for p in processes_with(box.top) if p != os.getpid()]
    equal(left, [])


@case
def a_disk_that_fills_up_during_a_run_does_not_hurt_pinfold(box):
    r = full_disk(box, '600k', 'run', '--', 'sh', '-c',
                  'cat /dev/zero >big; echo status $?; exit 7')
    check(r.status in (7, 137), str(r))
    check(r.status == 137 or b'status 1' in r.out, str(r))


@case
def without_free_processes_the_run_is_refused(box):
    """A limit on the caller's processes that leaves none for the sandbox."""
    if os.geteuid() == 0:
        raise Skip('RLIMIT_NPROC does not hold root')
    mine = 0
    for pid in os.listdir('/proc'):
        try:
            if pid.isdigit() and os.stat(f'/proc/{pid}').st_uid == os.geteuid():
                mine += len(os.listdir(f'/proc/{pid}/task'))
        except OSError:
            pass
    statuses = []
    for more in range(1, 6):
        def limit(n=mine + more):
            resource.setrlimit(resource.RLIMIT_NPROC, (n, n))
        r = box.run('--', 'true', preexec_fn=limit, timeout=30)
        check(r.status in (0, 125), str(r))
        if r.status:
            refused(r)
        statuses.append(r.status)
    check(125 in statuses, statuses)
    for task in re.findall(b.ID, ' '.join(tasks(box))):
        box.gone(task)


@case
def in_a_full_pids_group_the_run_is_refused(box):
    group = f'/sys/fs/cgroup/pids/test-{os.getpid()}'
    if not ROOT or not os.path.isdir('/sys/fs/cgroup/pids'):
        raise Skip('needs root and the pids controller')
    os.mkdir(group)
    try:
        for n in (1, 2, 3, 4):
            with open(f'{group}/pids.max', 'w', encoding='ascii') as f:
                f.write(str(n))

            def enter():
                with open(f'{group}/cgroup.procs', 'w', encoding='ascii') as f:
                    f.write('0')
            r = box.run('--', 'true', preexec_fn=enter, timeout=30)
            # With room for init alone the task is stopped by its limit.
            check(r.status in (0, 125, 137), f'{n}: {r}')
            if n <= 2:
                refused(r)
    finally:
        for _ in range(100):
            try:
                os.rmdir(group)
                break
            except OSError:
                time.sleep(0.02)


@case
def without_free_memory_the_run_ends_with_an_error(box):
    for megabytes in (1, 4, 16):
        def limit(n=megabytes << 20):
            resource.setrlimit(resource.RLIMIT_AS, (n, n))
        r = box.run('--', 'true', preexec_fn=limit, timeout=30)
        check(r.status in (0, 125, 126, 127) or r.status < 0, str(r))


@case
def without_free_descriptors_the_run_is_refused(box):
    for n in (4, 6, 8, 12, 16, 20, 32, 100, 256, 511):
        def limit(n=n):
            resource.setrlimit(resource.RLIMIT_NOFILE, (n, n))
        r = box.run('--', 'true', preexec_fn=limit, timeout=30)
        refused(r, f'the limit of open files is {n}, and a sandbox needs 512: '
                'ulimit -n 512')

    for n in (0, 1, 512, 1 << 19):
        def size(n=n):
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # not python's
            resource.setrlimit(resource.RLIMIT_FSIZE, (n, n))
        r = box.run('--', 'true', preexec_fn=size, timeout=30)
        refused(r, f"the limit of a file's size is {n} bytes")

    # Enough of them, and a soft limit that can be raised.
    for soft, hard in ((512, 512), (32, 1024)):
        def limits(soft=soft, hard=hard):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        box.run('--', 'true', preexec_fn=limits).expect(0)


@case
def more_paths_to_write_than_can_be_told_are_refused_by_name(box):
    words = []
    for i in range(90):
        os.mkdir(f'{box.top}/{i:0200}')
        words += ['--write', f'{box.top}/{i:0200}']
    r = box.run(*words, '--', 'true')
    refused(r, 'files.write: the paths of 9', 'take more than 16384 bytes')
    r = box.pinfold('promote', '--yes')
    check('cannot open write' not in r.text(), r)


@case
def where_user_namespaces_are_blocked_the_step_and_the_fix_are_named(box):
    """max_user_namespaces 0 of a user namespace around pinfold."""
    user = ['--user', '--map-root-user'] if not ROOT else ['--user',
                                                           '--map-root-user']
    script = 'echo 0 >/proc/sys/user/max_user_namespaces; exec "$@"'
    argv = ['unshare', *user, '--', 'sh', '-ec', script, 'sh', PINFOLD, 'run',
            '--source', box.source, '--', 'touch', 'made']
    r = box.finish(box.spawn(argv))
    refused(r, 'user namespace', 'max_user_namespaces')
    equal(os.listdir(box.source), [])


def programs():
    """Mapping of their names to paths: side by side as built, or installed."""
    folder = os.path.dirname(os.path.realpath(PINFOLD))
    found = {}
    for place in (folder, f'{folder}/../lib/pinfold'):
        if os.path.isdir(place):
            found |= {name: f'{place}/{name}' for name in os.listdir(place)
                      if name.startswith('pinfold')}
    return found


@case
def a_run_inside_of_a_run_is_refused_or_works_and_never_unconfined(box):
    os.makedirs(f'{box.source}/bin')
    for name, path in programs().items():
        shutil.copy(path, f'{box.source}/bin/{name}')
    r = box.sh(f'bin/pinfold run --source none -- sh -c "echo $$; id"')
    check(r.status == 125 or b'pinfold' not in r.out, str(r))
    within(r.text(), 'pinfold: ')


@case
def missing_programs_are_named(box):
    os.mkdir(f'{box.top}/bin')
    shutil.copy(PINFOLD, f'{box.top}/bin/pinfold')
    r = box.finish(box.spawn([f'{box.top}/bin/pinfold', 'run', '--', 'true']))
    refused(r, 'pinfold-keeper')
    shutil.copy(programs()['pinfold-keeper'], f'{box.top}/bin/pinfold-keeper')
    r = box.finish(box.spawn([f'{box.top}/bin/pinfold', 'run', '--', 'true']))
    refused(r, 'pinfold-init')


CONNECT_AND_MAKE = '''
import socket
socket.socket().connect_ex(("192.0.2.7", 80))
open("made", "w")
'''


@case
def a_program_that_is_another_is_refused(box):
    os.mkdir(f'{box.top}/bin')
    ours = programs()
    for name, path in ours.items():
        shutil.copy(path, f'{box.top}/bin/{name}')
    for name in ('pinfold-init', 'pinfold-keeper', 'pinfold-watch'):
        shutil.copy('/bin/true', f'{box.top}/bin/{name}')
        # watch is needed with the first notified call, and only then.
        r = box.finish(box.spawn([f'{box.top}/bin/pinfold', 'run', '--',
                                  'python3', '-c', CONNECT_AND_MAKE]),
                       timeout=30)
        check(r.status == 125, f'{name}: {r}')
        check(r.text().startswith('pinfold: '), f'{name}: {r}')
        shutil.copy(ours[name], f'{box.top}/bin/{name}')
    equal(os.listdir(box.source), [])


@case
def a_home_that_is_missing_or_odd_does_not_stop_a_run(box):
    for home in (None, '', 'relative', '/', '/no/such/home', '/usr'):
        env = dict(box.env)
        del env['HOME']
        if home is not None:
            env['HOME'] = home
        r = box.sh('cd && echo x >f && cat f', env=env)
        r.expect(0, out=b'x\n')


@case
def an_empty_environment_does_not_stop_a_run(box):
    env = {'XDG_STATE_HOME': box.env['XDG_STATE_HOME']}
    box.sh('echo $HOME', env=env).expect(0)


@case
def a_source_that_vanishes_while_the_task_starts_does_no_harm(box):
    for i in range(20):
        source = f'{box.top}/gone{i}'
        os.mkdir(source)
        process = box.spawn([PINFOLD, 'run', '--source', source, '--', 'true'])
        time.sleep(i / 1000)
        os.rename(source, source + '.away')
        r = box.finish(process, timeout=30)
        check(r.status in (0, 125), str(r))
        os.rmdir(source + '.away')


@case
def help_and_version_are_printed_without_anything_else(box):
    r = box.pinfold('--help').expect(0)
    for verb in (b'run', b'start', b'exec', b'ps', b'logs', b'stop', b'kill',
                 b'diff', b'discard', b'policy', b'doctor'):
        within(r.out, verb)
    box.pinfold('run', '--help').expect(0)
    box.pinfold('--version').expect(0)
    r = box.pinfold('rnu').expect(125)
    within(r.text(), 'run')
    box.pinfold().expect(125)
    equal(tasks(box) if not os.geteuid() == 0 else set(), set())


if __name__ == '__main__':
    sys.exit(main())

#!/usr/bin/python3
# limit: 300 s
"""pinfold run: exit statuses, arguments, streams and what is found inside."""
import fcntl
import json
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from box import (Failure, PINFOLD, ROOT, SITUATION, Skip, case, check, equal,
                 main, patient, short, wait_for, within)

BINARY_MB = int(os.environ.get('PINFOLD_BINARY_MB', '200'))
MEMORY_MAX_KIB = 64 << 10  # of each process that passes data on
INSIDE = '/usr/bin/python3'
ARGUMENT_MAX = 131071  # bytes of one argument (MAX_ARG_STRLEN less the zero)


# ---- exit statuses ----

@case
def every_exit_status_of_the_command_is_returned(box):
    for status in (0, 1, 2, 77, 123, 124, 125, 126, 127, 128, 137, 200, 255):
        box.sh(f'exit {status}').expect(status)


@case
def a_command_killed_by_signal_n_gives_128_plus_n(box):
    for name in ('HUP', 'INT', 'QUIT', 'KILL', 'TERM', 'SEGV', 'ABRT', 'USR1',
                 'PIPE'):
        r = box.sh(f'kill -s {name} $$', '--json')
        number = signal.Signals['SIG' + name]
        r.expect(128 + number)
        equal((r.json()['signal'], r.json()['reason']), (number, 'signal'),
              name)


@case
def a_time_out_gives_124_and_ends_the_command(box):
    r = box.run('--timeout', '300ms', '--json', '--', 'sleep', '1000')
    r.expect(124, text='limit: wall')
    check(r.seconds < patient(10), f'took {r.seconds:.1f} s')
    equal((r.json()['limit'], r.json()['reason']), ('wall', 'limit'))


@case
def a_command_that_is_not_there_gives_127_and_is_named(box):
    box.run('--', 'no-such-command').expect(127, text='"no-such-command"')
    box.run('--', './no-such-file').expect(127, text='"./no-such-file"')
    box.run('--', '/no/such/file').expect(127, text='not found')
    box.run('--', '').expect(127)


@case
def a_file_that_is_no_program_gives_126(box):
    box.write('text', 'no program\n')
    box.write('bad', b'\x7fELF' + b'x' * 100, 0o755)
    box.run('--', './text').expect(126, text='Permission denied')
    box.run('--', './bad').expect(126)
    box.run('--', '/usr').expect(126)


@case
def a_missing_interpreter_is_a_command_not_found(box):
    box.write('script', '#!/no/such/shell\n', 0o755)
    box.run('--', './script').expect(127)


@case
def what_pinfold_refuses_gives_125_in_one_line(box):
    rows = [
        (['--source', '/no/such', '--', 'true'], '/no/such'),
        (['--workdir', '/no/such', '--', 'true'], '/no/such'),
        (['--workdir', '/usr', '--', 'true'], '/usr'),
        (['--limit', 'memory=lots', '--', 'true'], 'lots'),
        (['--limit', 'memroy=1GiB', '--', 'true'], 'memory'),
        (['--tier', 'microvm', '--', 'true'], 'microvm'),
        (['--timeout', '5x', '--', 'true'], '5x'),
        (['--grace', '5x', '--', 'true'], '5x'),
        (['--policy', '/no/such.yaml', '--', 'true'], '/no/such.yaml'),
        (['--preset', 'ofline', '--', 'true'], 'offline'),
        (['--soruce', 'none', '--', 'true'], '--source'),
        (['--env', '1X=2', '--', 'true'], '1X'),
        (['--read', '/no/such', '--', 'true'], '/no/such'),
        ([], 'command'),
        (['--'], 'command'),
    ]
    for words, text in rows:
        r = box.run(*words).expect(125, out=b'', text=text)
        lines = r.text().splitlines()
        check(lines[0].startswith('pinfold: '), f'{words}: {lines}')
        check(len(lines) <= 2, f'{words}: {lines}')


@case
def a_refusal_in_json_has_the_reason_as_text(box):
    r = box.run('--json', '--source', '/no/such', '--', 'true').expect(125)
    record = r.json()
    equal((record['reason'], record['exit_status']), ('refused', 125))
    within(record['error'], '/no/such')


# ---- arguments ----

SHOW = 'import sys; print([a.encode("utf-8", "surrogateescape") ' \
    'for a in sys.argv[1:]])'


@case
def arguments_arrive_byte_for_byte(box):
    words = [b'', b' ', b'a b', b'a\nb', b'"', b"'", b'$HOME', b'*', b'\\', b'-n',
             b'--', b'--json', b'\xff\xfe\x80', b'\xc3', 'ü€𝄞'.encode(), b'',
             bytes(range(1, 256))]
    r = box.run('--', INSIDE, '-c', SHOW, *words).expect(0)
    equal(eval(r.out), words)  # pylint: disable=eval-used


@case
def options_after_the_command_are_the_commands_own(box):
    box.run('echo', '--source', 'x', '-n').expect(0, out=b'--source x -n\n')


@case
def a_command_name_with_spaces_and_newlines_runs(box):
    box.write('a b\nc', '#!/bin/sh\necho "$0"\n', 0o755)
    box.run('--', './a b\nc').expect(0, out=b'./a b\nc\n')


@case
def arguments_of_the_kernels_maximum_arrive(box):
    """One of 131,071 bytes, and two megabytes less what the kernel keeps."""
    script = 'import sys; print(len(sys.argv), sum(map(len, sys.argv)))'
    one = 'x' * ARGUMENT_MAX
    r = box.run('--', INSIDE, '-c', script, one).expect(0)
    equal(r.out, f'2 {ARGUMENT_MAX + 2}\n'.encode())
    total = os.sysconf('SC_ARG_MAX') - 40960
    n = total // (ARGUMENT_MAX + 1 + 8)
    r = box.run('--', INSIDE, '-c', script, *([one] * n)).expect(0)
    equal(r.out, f'{n + 1} {n * ARGUMENT_MAX + 2}\n'.encode())
    many = (total - 8192) // 10
    r = box.run('--', INSIDE, '-c', script, *(['x'] * many)).expect(0)
    equal(r.out, f'{many + 1} {many + 2}\n'.encode())


# ---- streams ----

@case
def standard_input_reaches_the_command_and_ends(box):
    data = os.urandom(300000)
    box.run('--', 'cat', data=data).expect(0, out=data)
    box.run('--', 'cat', data=b'').expect(0, out=b'')


@case
def with_n_standard_input_is_empty_and_not_read(box):
    ours, theirs = os.pipe()
    os.write(theirs, b'mine')
    box.run('-n', '--', 'cat', stdin=ours).expect(0, out=b'')
    equal(os.read(ours, 10), b'mine')
    os.close(ours)
    os.close(theirs)


@case
def standard_input_from_a_file_is_read(box):
    path = box.write('in', 'from a file\n')
    with open(path, 'rb') as f:
        box.run('--', 'cat', stdin=f).expect(0, out=b'from a file\n')


@case
def closed_standard_streams_do_not_stop_a_run(box):
    def close():
        os.close(0)
    box.run('--', 'sh', '-c', 'cat; echo ok', stdin=None,
            preexec_fn=close).expect(0, out=b'ok\n')
    script = f'exec "$0" run -- sh -c "echo a; echo b >&2; exit 5" <&- >&- 2>&-'
    r = box.finish(box.spawn(['sh', '-c', script, PINFOLD]))
    r.expect(5, out=b'')
    equal(r.err, b'')
    # Nothing of pinfold's own may be taken for a stream of the caller's.
    equal(sorted(os.listdir(box.source)), [])


@case
def an_open_input_pipe_does_not_delay_the_exit(box):
    ours, theirs = os.pipe()
    r = box.run('--', 'true', stdin=ours).expect(0)
    check(r.seconds < patient(10), f'took {r.seconds:.1f} s')
    r = box.run('--', 'head', '-c', '1', stdin=ours, timeout=20,
                preexec_fn=lambda: os.write(theirs, b'xyz')).expect(0)
    equal(r.out, b'x')
    os.close(ours)
    os.close(theirs)


@case
def a_terminated_writer_into_the_input_does_not_hurt(box):
    """More input than the command reads: the writer gets its SIGPIPE."""
    script = 'yes | "$0" run -- head -n 2'
    r = box.finish(box.spawn(['sh', '-c', script, PINFOLD]))
    r.expect(0, out=b'y\ny\n')


ORDER = 'i=0; while [ $i -lt 300 ]; do echo out $i; echo err $i >&2; ' \
    'i=$((i+1)); done'
ORDERED = ''.join(f'out {i}\nerr {i}\n' for i in range(300)).encode()


@case
def one_open_file_for_both_streams_keeps_the_order(box):
    for mode in ('wb', 'ab'):
        with open(f'{box.top}/log', mode) as log:
            box.sh(ORDER, stdout=log, stderr=subprocess.STDOUT).expect(0)
        with open(f'{box.top}/log', 'rb') as log:
            equal(log.read(), ORDERED, mode)
        os.unlink(f'{box.top}/log')
    r = box.sh(ORDER, stderr=subprocess.STDOUT).expect(0)
    equal(r.out, ORDERED, 'a pipe')


@case
def two_files_get_one_stream_each(box):
    with open(f'{box.top}/1', 'wb') as one, open(f'{box.top}/2', 'wb') as two:
        box.sh(ORDER, stdout=one, stderr=two).expect(0)
    with open(f'{box.top}/1', 'rb') as one, open(f'{box.top}/2', 'rb') as two:
        equal(one.read(), b''.join(b'out %d\n' % i for i in range(300)))
        equal(two.read(), b''.join(b'err %d\n' % i for i in range(300)))


@case
def what_a_file_held_before_appending_stays(box):
    with open(f'{box.top}/log', 'wb') as log:
        log.write(b'before\n')
    with open(f'{box.top}/log', 'ab') as log:
        box.sh('echo one; echo two >&2', stdout=log, stderr=log).expect(0)
        log.write(b'after\n')
    with open(f'{box.top}/log', 'rb') as log:
        equal(log.read(), b'before\none\ntwo\nafter\n')


@case
def a_file_position_is_shared_with_what_follows(box):
    script = '(echo a; "$0" run -- echo b; echo c) >"$1"'
    box.finish(box.spawn(['sh', '-c', script, PINFOLD, f'{box.top}/log']))
    with open(f'{box.top}/log', 'rb') as log:
        equal(log.read(), b'a\nb\nc\n')


@case
def the_streams_of_the_command_are_pipes_and_not_the_callers_files(box):
    with open(f'{box.top}/log', 'w+b') as log:
        r = box.sh('readlink /proc/self/fd/1 >&2; echo again >/dev/stdout; '
                   'ls /proc/self/fd | wc -l >&2', stdout=log).expect(0)
        log.seek(0)
        equal(log.read(), b'again\n')
    check(r.text().startswith('pipe:'), str(r))
    # 0, 1, 2 and the one that ls opens itself.
    equal(r.text().split()[1], '4')


def peak_memory(pid):
    try:
        with open(f'/proc/{pid}/status', encoding='ascii',
                  errors='replace') as f:
            for line in f:
                if line.startswith('VmHWM:'):
                    return int(line.split()[1])
    except OSError:
        pass
    return 0


@case
def binary_data_passes_a_pipe_unchanged_in_constant_memory(box):
    """PINFOLD_BINARY_MB megabytes in and out; the soak has 10,000."""
    import hashlib
    import box as b
    block = os.urandom(1 << 20)
    process = box.spawn([PINFOLD, 'run', '--limit', 'output=none', '--', 'cat'],
                        stdin=subprocess.PIPE)
    sent, got = hashlib.sha256(), hashlib.sha256()

    def feed():
        for i in range(BINARY_MB):
            data = block[i % 1000:] + block[:i % 1000]
            sent.update(data)
            process.stdin.write(data)
        process.stdin.close()

    thread = threading.Thread(target=feed, daemon=True)
    thread.start()
    n, peak, fd = 0, 0, process.stdout.fileno()
    began = time.monotonic()
    while True:
        ready, _, _ = select.select([fd], [], [], patient(60))
        check(ready, f'no data for 60 s after {n} bytes')
        data = os.read(fd, 1 << 20)
        if not data:
            break
        if n % (32 << 20) > (n + len(data)) % (32 << 20) or n == 0:
            for pid in [process.pid, *b.below(process.pid)]:
                if b.command_of(pid).startswith('pinfold'):
                    peak = max(peak, peak_memory(pid))
        n += len(data)
        got.update(data)
    took = time.monotonic() - began
    thread.join(patient(10))
    equal(process.wait(patient(20)), 0, 'status')
    equal((n, got.hexdigest()), (BINARY_MB << 20, sent.hexdigest()))
    check(peak < MEMORY_MAX_KIB, f'a process of pinfold grew to {peak} KiB')
    return f'{BINARY_MB} MB in {took:.1f} s, at most {peak} KiB'


@case
def a_reader_that_closes_ends_the_writer_inside(box):
    script = '"$0" run --json=/dev/null -- yes | head -n 1'
    r = box.finish(box.spawn(['sh', '-c', script, PINFOLD]), timeout=20)
    r.expect(0, out=b'y\n')
    process = box.spawn([PINFOLD, 'run', '--', 'yes'])
    os.read(process.stdout.fileno(), 100)
    process.stdout.close()
    equal(process.wait(patient(20)), 128 + signal.SIGPIPE)


@case
def a_slow_reader_gets_all_of_the_output(box):
    process = box.spawn([PINFOLD, 'run', '--', 'sh', '-c',
                         'head -c 3000000 /dev/zero; exit 3'])
    time.sleep(1)
    r = box.finish(process).expect(3)
    equal(len(r.out), 3000000)


@case
def output_that_cannot_be_written_ends_the_run(box):
    with open('/dev/full', 'wb') as full:
        r = box.run('--', 'yes', stdout=full, timeout=20)
    check(r.status != 0, f'{r}')


@case
def output_into_a_non_blocking_pipe_is_complete(box):
    ours, theirs = os.pipe()
    fcntl.fcntl(theirs, fcntl.F_SETFL, os.O_NONBLOCK)
    process = box.spawn([PINFOLD, 'run', '--', 'head', '-c', '2000000',
                         '/dev/zero'], stdout=theirs)
    os.close(theirs)
    time.sleep(0.3)
    n = 0
    while data := os.read(ours, 65536):
        n += len(data)
    os.close(ours)
    equal((process.wait(patient(20)), n), (0, 2000000))


# ---- what is found inside ----

@case
def the_environment_is_built_from_nothing(box):
    env = {**box.env, 'SECRET': 'x', 'AWS_SECRET_ACCESS_KEY': 'y',
           'LD_PRELOAD': '', 'PYTHONPATH': '/x'}
    r = box.run('--', 'env', '-0', env=env).expect(0)
    names = {w.split(b'=')[0].decode() for w in r.out.split(b'\0') if w}
    equal(names, {'PATH', 'HOME', 'USER', 'LOGNAME', 'SHELL', 'TMPDIR', 'LANG',
                  'PINFOLD_TASK'} | ({'TERM'} & names))


@case
def variables_are_passed_and_set_when_asked_for(box):
    env = {**box.env, 'MINE': 'a b\nc', 'OTHER': 'no', 'BYTES': 'x'}
    env = {os.fsencode(k): os.fsencode(v) for k, v in env.items()}
    env[b'BYTES'] = b'\xff\xfe'
    r = box.run('--env', 'MINE', '--env', 'BYTES', '--env', 'ABSENT', '--env',
                'NEW=v=w ', '--env', 'EMPTY=', '--env', 'LANG=de', '--',
                'env', '-0', env=env).expect(0)
    found = dict(w.split(b'=', 1) for w in r.out.split(b'\0') if w)
    equal(found.get(b'MINE'), b'a b\nc')
    equal(found.get(b'BYTES'), b'\xff\xfe')
    equal(found.get(b'NEW'), b'v=w ')
    equal(found.get(b'EMPTY'), b'')
    equal(found.get(b'LANG'), b'de')
    check(b'ABSENT' not in found and b'OTHER' not in found, found)
    equal(r.text(), 'pinfold: --env ABSENT: the caller has no such variable\n')


@case
def home_and_tmpdir_exist_and_are_private(box):
    with open(f'{box.home}/secret', 'w', encoding='ascii') as f:
        f.write('secret')
    script = '''
        set -e
        cd; test "$(pwd)" = "$HOME"
        echo x >"$HOME/.file"; mkdir -p "$HOME/.cache/x"
        test "$(cat "$(mktemp)" <<END
here
END
)" = ""
        cat <<END
heredoc
END
        test ! -e "$HOME/secret"; test ! -e /root/.profile
        stat -c %a "$HOME" "$TMPDIR"; ls "$TMPDIR" | wc -l; ls -A /tmp | wc -l
    '''
    r = box.sh(script).expect(0)
    lines = r.out.decode().split()
    equal(lines[0], 'heredoc')
    check(lines[1] == '700' and lines[2] == '1777', lines)
    equal(os.listdir(box.home).count('.file'), 0)
    with open(f'{box.home}/secret', encoding='ascii') as f:
        equal(f.read(), 'secret')


@case
def the_hosts_home_and_tmp_are_not_there(box):
    mark = f'/tmp/pinfold-mark-{os.getpid()}'
    with open(mark, 'w', encoding='ascii') as f:
        f.write('x')
    try:
        r = box.sh(f'test ! -e {mark} && ls -A /var/tmp /home /root /mnt /srv '
                   '/media /opt /boot 2>/dev/null; :').expect(0)
    finally:
        os.unlink(mark)
    check(os.path.basename(mark).encode() not in r.out, str(r))


@case
def shared_memory_is_of_useful_size(box):
    script = 'import os,mmap,multiprocessing as m; ' \
        'v=os.statvfs("/dev/shm"); print(v.f_blocks*v.f_frsize); ' \
        'l=m.Lock(); l.acquire(); f=open("/dev/shm/x","w+b"); ' \
        'f.truncate(100<<20); p=mmap.mmap(f.fileno(),100<<20); ' \
        'p[:]=b"x"*(100<<20)'
    r = box.run('--', INSIDE, '-c', script).expect(0)
    check(int(r.out) >= 256 << 20, r.out)


@case
def the_source_is_at_its_own_path_and_the_working_directory_too(box):
    os.makedirs(f'{box.source}/a/b')
    box.write('a/b/file', 'text')
    r = box.run('--', 'sh', '-c', 'pwd; cat file; cat ../../a/b/file',
                '--source', box.source, cwd=f'{box.source}/a/b')
    subprocess.run(['git', 'init', '-q', box.source], check=True, env=box.env)
    r = box.sh('pwd; cat file; ls -d "$1/.git"; :',
               cwd=f'{box.source}/a/b').expect(0)
    equal(r.out.split()[0].decode(), f'{box.source}/a/b')
    within(r.out, b'text')
    r = box.run('--workdir', f'{box.source}/a', '--', 'pwd').expect(0)
    equal(r.out.decode(), f'{box.source}/a\n')
    r = box.run('--source', box.source, '--', 'pwd', cwd='/').expect(0)
    equal(r.out.decode(), f'{box.source}\n')


@case
def git_works_on_a_repository_inside(box):
    git = ['git', '-c', 'user.name=n', '-c', 'user.email=e']
    box.write('f', 'one\n')
    for words in (['init', '-q'], ['add', '.'], ['commit', '-q', '-m', 'one']):
        subprocess.run(git + words, cwd=box.source, env=box.env, check=True,
                       stdout=subprocess.DEVNULL)
    script = 'git status --porcelain && echo two >>f && ' \
        'git -c user.name=n -c user.email=e commit -qam two && ' \
        'git log --format=%s && git status --porcelain && git fsck'
    r = box.sh(script).expect(0)
    equal(r.out, b'two\none\n')
    r = subprocess.run(git + ['log', '--format=%s'], cwd=box.source,
                       env=box.env, check=True, stdout=subprocess.PIPE)
    equal(r.stdout, b'one\n')


@case
def only_the_sandboxs_own_processes_are_seen(box):
    script = 'for p in /proc/[0-9]*; do cat $p/comm; done 2>/dev/null | ' \
        'sort -u; kill -0 1 || echo cannot; ls /proc | grep -c "^[0-9]"'
    r = box.sh(script).expect(0)
    names = r.out.decode().split()
    check(set(names) <= {'pinfold-init', 'sh', 'cat', 'sort', 'ls', 'grep',
                         'cannot', '2', '3', '4', '5', '6'}, names)
    script = f'test ! -e /proc/{os.getpid()}/status && echo hidden'
    if os.getpid() > 50:
        box.sh(script).expect(0, out=b'hidden\n')


@case
def the_host_name_and_machine_id_are_the_tasks_own(box):
    r = box.sh('hostname; cat /etc/hostname /etc/machine-id; '
               'echo $PINFOLD_TASK; getent hosts $(hostname)',
               '--json').expect(0)
    words = r.out.decode().split()
    task = r.json()['id']
    equal(words[:2] + [words[3]], [task] * 3)
    check(len(words[2]) == 32, words[2])
    if os.path.exists('/etc/machine-id'):
        with open('/etc/machine-id', encoding='ascii') as f:
            check(f.read().strip() != words[2], 'the machine id is the host\'s')
    check(os.uname().nodename != words[0], 'the host name is the host\'s')


@case
def the_user_has_a_name_and_no_privilege(box):
    r = box.sh('id -un; id -u; grep -E "^(CapEff|CapBnd|NoNewPrivs|Seccomp):" '
               '/proc/self/status; cat ~/x 2>/dev/null; '
               'getent passwd "$(id -u)" | cut -d: -f6; echo $HOME').expect(0)
    words = r.out.decode().split()
    if os.geteuid() == 0:
        equal(words[:2], ['agent', '1000'])
    else:
        equal(words[1], str(os.geteuid()))
    equal(words[words.index('CapEff:') + 1], '0' * 16)
    equal(words[words.index('CapBnd:') + 1], '0' * 16)
    equal(words[words.index('NoNewPrivs:') + 1], '1')
    equal(words[-1], words[-2], 'HOME and passwd')


# ---- network ----

@case
def names_fail_at_once_and_for_good(box):
    """No time-out and no "try again": EAI_NONAME for every client."""
    script = '''
import socket, time
for name in ("example.com", "host.invalid", "metadata.google.internal"):
    began = time.monotonic()
    try:
        socket.getaddrinfo(name, 80)
        print("resolved")
    except socket.gaierror as e:
        print(e.errno == socket.EAI_NONAME, e, time.monotonic() - began < 2)
'''
    r = box.run('--', INSIDE, '-c', script).expect(0)
    for line in r.out.decode().splitlines():
        check(line.startswith('True') and line.endswith('True'), line)
    r = box.run('--', 'getent', 'hosts', 'example.com').expect(2)
    check(r.seconds < patient(10), r.seconds)
    for family in ('AF_INET', 'AF_INET6'):
        r = box.run('--', INSIDE, '-c', 'import socket\ntry:\n '
                    f'socket.getaddrinfo("example.com", 80, socket.{family})\n'
                    'except socket.gaierror as e:\n print(e.errno)').expect(0)
        equal(int(r.out), socket.EAI_NONAME, family)


@case
def attempts_to_connect_are_refused_and_recorded(box):
    script = '''
import socket, errno
def attempt(family, kind, address, how):
    s = socket.socket(family, kind)
    s.settimeout(20)
    try:
        how(s, address)
        print("reached", address)
    except OSError as e:
        print(errno.errorcode[e.errno])
c, t = lambda s, a: s.connect(a), lambda s, a: s.sendto(b"x", a)
attempt(socket.AF_INET, socket.SOCK_STREAM, ("192.0.2.1", 443), c)
attempt(socket.AF_INET, socket.SOCK_STREAM, ("169.254.169.254", 80), c)
attempt(socket.AF_INET6, socket.SOCK_STREAM, ("2001:db8::1", 443), c)
attempt(socket.AF_INET, socket.SOCK_DGRAM, ("192.0.2.2", 53), t)
attempt(socket.AF_INET, socket.SOCK_DGRAM, ("192.0.2.3", 53), c)
'''
    r = box.run('--json', '--', INSIDE, '-c', script).expect(0)
    equal(r.out.decode().split(), ['ENETUNREACH'] * 5)
    check(r.seconds < patient(20), r.seconds)
    seen = {(f['action'], f['object']): f for f in r.json()['refusals']}
    equal(set(seen), {('connect', '192.0.2.1:443'),
                      ('connect', '169.254.169.254:80'),
                      ('connect', '[2001:db8::1]:443'),
                      ('sendto', '192.0.2.2:53'),
                      ('connect', '192.0.2.3:53')})
    for refusal in seen.values():
        equal((refusal['error'], refusal['claimed'], refusal['count']),
              (101, True, 1))
        within(refusal['rule'], 'network')
    within(r.text(), '5 network attempts refused')


@case
def the_hosts_listeners_are_not_reached(box):
    with socket.socket() as listener:
        listener.bind(('127.0.0.1', 0))
        listener.listen(8)
        port = listener.getsockname()[1]
        script = f'import socket\nfor a in ("127.0.0.1", "localhost"):\n' \
            f' s=socket.socket()\n print(s.connect_ex((a,{port})))\n'
        r = box.run('--', INSIDE, '-c', script).expect(0)
        equal(r.out.split(), [b'111', b'111'])
        listener.setblocking(False)
        try:
            listener.accept()
            raise Failure('the listener was reached')
        except BlockingIOError:
            pass


@case
def a_server_on_the_sandboxs_own_loopback_works(box):
    script = '''
import http.server, socket, threading, urllib.request
for host, family in (("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6),
                     ("localhost", socket.AF_INET)):
    class Server(http.server.HTTPServer):
        address_family = family
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200); self.end_headers(); self.wfile.write(b"yes")
        def log_message(self, *a): pass
    s = Server((host, 0), Handler)
    threading.Thread(target=s.handle_request).start()
    name = "[::1]" if ":" in host else host
    print(urllib.request.urlopen(f"http://{name}:{s.server_port}/").read())
a, b = socket.socketpair()
a.send(b"pair"); print(b.recv(9))
u = socket.socket(socket.AF_UNIX); u.bind("/tmp/s"); u.listen()
v = socket.socket(socket.AF_UNIX); v.connect("/tmp/s"); print("unix")
'''
    r = box.run('--json', '--', INSIDE, '-c', script).expect(0)
    equal(r.out, b"b'yes'\n" * 3 + b"b'pair'\nunix\n")
    equal(r.json()['refusals'], [])


# ---- the report ----

KEYS = {'argv', 'argv_dropped', 'changes', 'ended_us', 'enforced', 'error',
        'exit_status', 'hidden_digest', 'home', 'id', 'identity', 'kernel', 'labels', 'limit',
        'name',
        'policy_digest', 'policy_name', 'reason', 'refusals',
        'refusals_dropped', 'schema', 'signal', 'source', 'started_us',
        'state', 'tier', 'uid', 'usage', 'workdir', 'workspace'}


@case
def json_is_one_object_in_the_last_line_of_standard_error(box):
    r = box.sh('echo no newline at the end >&2; printf x >&2; exit 7',
               '--json', '--label', 'k=v', '--label', 'name=n').expect(7)
    record = r.json()
    check(KEYS <= set(record), sorted(KEYS - set(record)))
    equal((record['schema'], record['exit_status'], record['state'],
           record['reason'], record['source'], record['tier'], record['uid']),
          ('pinfold-task-1', 7, 'ended', 'exit', box.source, 'container',
           os.geteuid()))
    equal(record['argv'][:2], ['sh', '-c'])
    equal(sorted(record['labels']), ['k=v', 'name=n'])
    check(record['started_us'] <= record['ended_us'], record)
    equal(len(record['policy_digest']), 64)
    what = {e['what'] for e in record['enforced']}
    check({'memory', 'processes', 'disk'} <= what, what)
    equal(box.record(record['id']), record, 'task.json')


@case
def json_goes_to_a_file_when_one_is_named(box):
    path = f'{box.top}/report.json'
    r = box.run(f'--json={path}', '--', 'true').expect(0)
    equal(r.err, b'')
    with open(path, encoding='utf-8') as f:
        equal(json.load(f)['exit_status'], 0)
    r = box.run('--json=/no/such/dir/x', '--', 'touch', 'made').expect(125)
    within(r.text(), '/no/such/dir/x')


@case
def json_of_odd_arguments_is_valid(box):
    r = box.run('--json', '--', 'true', b'\xff\x00'[:1], 'a\nb"\\', 'ü')
    equal(r.expect(0).json()['argv'][2:], ['a\nb"\\', 'ü'])


@case
def a_run_leaves_nothing_but_its_record(box):
    process = box.spawn([PINFOLD, 'run', '--json', '--', 'sleep', '0.5'])
    import box as b
    wait_for(lambda: b.find_below(process.pid, 'sleep'), what='the command')
    seen = b.below(process.pid)
    r = box.finish(process).expect(0)
    took = box.gone(r.json()['id'], seen)
    equal(os.listdir(box.source), [])
    return f'{took:.2f} s'


@case
def a_run_that_changes_nothing_says_nothing(box):
    box.write('f', 'x')
    r = box.run('--', 'cat', 'f').expect(0, out=b'x')
    equal(r.err, b'')


if __name__ == '__main__':
    sys.exit(main())

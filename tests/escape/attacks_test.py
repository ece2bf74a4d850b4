#!/usr/bin/python3
# limit: 600 s
"""Runs every attack inside of a sandbox and looks from outside at what came.

    attacks_test.py            in the situation of PINFOLD_SITUATION
    attacks_test.py --prove    outside: which attacks get through where nothing
                               stops them; with --table as the table of
                               docs/security-tests.md

The attack programs print a line for each attack. This runner adds what only the
host can say: that no listener, socket, FIFO or descriptor was reached, that no
file changed, that the planted process lives, that nothing was left behind, and
that a task which uses a resource up is stopped with the limit's name while its
neighbour works on.
"""
import os
import pty
import select
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, f'{HERE}/../integ']
import host as planted  # noqa: E402
from box import ours  # noqa: E402

PINFOLD = os.environ.get('PINFOLD', 'pinfold')
TOP = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
BUILD = os.environ.get('PINFOLD_BUILD', f'{TOP}/build')
PROGRAMS = f'{BUILD}/tests/escape'
PATIENCE = float(os.environ.get('PINFOLD_TEST_PATIENCE', '1'))
SITUATION = os.environ.get('PINFOLD_SITUATION', 'user')
# Attacks that need more planted than this situation's caller may plant.
NEEDS_ROOT = ('-suid-root', '-suid-other', '-sgid-root', '-cap')
# Bomb, limit, its name in the message, statuses that say it was stopped.
BOMBS = [
    ('fork', 'processes=100', 'processes', (137,)),
    ('refork', 'processes=100', 'processes', (137,)),
    ('threads', 'processes=100', 'processes', (137,)),
    ('memory', 'memory=128MiB', 'memory', (137,)),
    ('shared-memory', 'memory=128MiB', 'memory', (137,)),
    ('memfd', 'memory=128MiB', 'memory', (137,)),
    ('disk-source', 'disk=16MiB', 'disk', (137,)),
    ('disk-home', 'disk=16MiB', 'disk', (137,)),
    ('disk-tmp', 'disk=16MiB', 'disk', (137,)),
    ('disk-deleted', 'disk=16MiB', 'disk', (137,)),
    ('disk-fallocate', 'disk=16MiB', 'disk', (137,)),
    ('inodes', 'inodes=2000', 'inodes', (137,)),
    ('output', 'output=1MiB', 'output', (137,)),
    ('error-output', 'output=1MiB', 'output', (137,)),
    ('cpu', 'cpu_time=1s', 'cpu_time', (137,)),
    ('cpu-children', 'cpu_time=1s', 'cpu_time', (137,)),
    ('sleep', 'wall=2s', 'wall', (124, 137)),
    ('sleep', 'idle=2s', 'idle', (124, 137)),
]

failures = 0


def say(good, sentence, why=''):
    global failures
    if good:
        print(f'ok - {sentence}', flush=True)
        return
    failures += 1
    print(f'not ok - {sentence}: {why}', flush=True)


def pinfold(host, words, command):
    return [PINFOLD, 'run', '--source', host.source, '--read', host.grant,
            *words, '--', *command]


def careless_caller():
    """Signals as a caller may leave them: none of it may reach a command."""
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])


def run(host, argv, timeout=90, **more):
    """Runs to the end; a run that hangs has the status None."""
    options = {'cwd': host.source, 'env': host.environment(),
               'stdin': subprocess.DEVNULL, 'stdout': subprocess.PIPE,
               'stderr': subprocess.PIPE, 'pass_fds': host.inherited, 'umask': 0,
               'preexec_fn': careless_caller, **more}
    with subprocess.Popen(argv, start_new_session=True, **options) as process:
        try:
            out, err = process.communicate(timeout=timeout * PATIENCE)
            status = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            status = None
            try:
                out, err = process.communicate(timeout=5 * PATIENCE)
            except subprocess.TimeoutExpired:
                out, err = b'', b'something holds the pipes open'
    return status, *(b.decode('utf-8', 'replace') if b else ''
                     for b in (out, err))


def judge_lines(name, status, out, err):
    """Passes the program's own lines on; they must be complete."""
    global failures
    lines = [line for line in out.splitlines()
             if line.startswith(('ok ', 'not ok ', 'skip '))]
    failures += sum(line.startswith('not ok') for line in lines)
    for line in lines:
        print(line, flush=True)
    closing = [line for line in out.splitlines() if line.startswith('# ')]
    whole = closing and int(closing[-1].split()[1]) == len(lines)
    say(whole and status in (0, 1), f'runner: all {name} attacks were made',
        f'status {status}, {len(lines)} lines, stderr {err[-400:]!r}')


def check_outside(host, name):
    faults = host.differences()
    say(not faults, f'runner: {name} attacks had no effect outside',
        '; '.join(faults[:12]))
    # The next attacks are judged by themselves.
    host.listeners.arrived.clear()
    host.before = host.state()


def skipping_unplanted(out, capable):
    """Where nobody could plant a file, its absence proves nothing."""
    if capable:
        return out
    lines = []
    for line in out.splitlines():
        if 'set-uid program of' in line or 'set-gid program' in line or \
                'program with file cap' in line or 'out of a read grant' in line:
            line = 'skip - ' + line.split(' - ', 1)[1].split(': got')[0] + \
                ': only root can plant the program'
        lines.append(line)
    return '\n'.join(lines)


def attack_all(host):
    for name in planted.ATTACKS:
        # Standard error is a file of the caller's that nothing may touch
        # but by appending.
        with open(f'{host.base}/stderr-{name}', 'w+b') as log:
            log.write(b'written before\n')
            log.flush()
            host.before = host.state()
            status, out, _ = run(
                host, pinfold(host, ['--limit', 'open_files=1024'],
                              [f'./attacks/{name}'] + host.arguments()),
                stderr=log)
            log.seek(0)
            text = log.read().decode('utf-8', 'replace')
        os.unlink(log.name)
        host.before['tree'] = {k: v for k, v in host.before['tree'].items()
                               if not k.startswith('stderr-')}
        judge_lines(name, status, skipping_unplanted(out, host.capable), text)
        if not text.startswith('written before\n'):
            say(False, f'runner: {name} attacks left the log alone', text[:80])
        check_outside(host, name)


def read_all(fd, seconds):
    data = b''
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        ready, _, _ = select.select([fd], [], [], 0.2)
        if ready:
            try:
                block = os.read(fd, 65536)
            except OSError:
                break
            if not block:
                break
            data += block
    return data


def attack_terminal(host):
    """Under a pty of ours; what was typed would wait in our slave's queue."""
    master, slave = pty.openpty()
    device = os.fstat(slave).st_dev
    argv = pinfold(host, ['-t'], ['./attacks/terminal', f'ptsdev={device}'] +
                   host.arguments())
    with subprocess.Popen(argv, cwd=host.source, env=host.environment(),
                          stdin=slave, stdout=slave, stderr=slave,
                          start_new_session=True,
                          pass_fds=host.inherited) as process:
        data = b''
        end = time.monotonic() + 60 * PATIENCE
        while process.poll() is None and time.monotonic() < end:
            data += read_all(master, 0.3)
        data += read_all(master, 0.3)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        status = process.wait()
    out = data.decode('utf-8', 'replace').replace('\r\n', '\n')
    judge_lines('terminal', status, out, '')
    os.set_blocking(slave, False)
    try:
        typed = os.read(slave, 100)
    except BlockingIOError:
        typed = b''
    say(not typed, "runner: nothing was typed into the caller's terminal",
        repr(typed))
    os.close(master)
    os.close(slave)
    check_outside(host, 'terminal')


class Neighbour:
    """A sandbox that counts time and must not notice the bombs."""

    def __init__(self, host):
        self.path = f'{host.base}/ticks'
        with open(self.path, 'wb') as out:
            self.process = subprocess.Popen(
                pinfold(host, [], ['sh', '-c', 'while sleep 0.2; do echo t; '
                                   ': > "$HOME/w" || echo F; done']),
                cwd=host.source, env=host.environment(), stdout=out,
                stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)

    def ticks(self):
        return os.path.getsize(self.path)

    def failed(self):
        with open(self.path, 'rb') as f:
            return b'F' in f.read()

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(10 * PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.unlink(self.path)


def processes_of(word):
    found = []
    for pid in sorted(ours()):
        try:
            with open(f'/proc/{pid}/cmdline', 'rb') as f:
                if word.encode() in f.read():
                    found.append(pid)
        except OSError:
            pass
    return found


def bomb(host, neighbour, row):
    name, limit, word, statuses = row
    before = neighbour.ticks()
    began = time.monotonic()
    status, out, err = run(host, pinfold(
        host, ['--limit', limit], ['./attacks/bomb', name]), timeout=60)
    took = time.monotonic() - began
    sentence = f'bombs: {name} is stopped by {limit}'
    named = f'pinfold: limit: {word}' in err
    say(status in statuses and named and 'survived' not in out, sentence,
        f'status {status} after {took:.1f} s, stdout {out[-80:]!r}, '
        f'stderr {err[-300:]!r}')
    end = time.monotonic() + 2 * PATIENCE
    while processes_of('attacks/bomb') and time.monotonic() < end:
        time.sleep(0.05)
    left = processes_of('attacks/bomb')
    say(not left, f'bombs: nothing of {name} ({limit}) is left after it',
        f'processes {left[:5]}')
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    end = time.monotonic() + 3 * PATIENCE
    while neighbour.ticks() <= before and time.monotonic() < end:
        time.sleep(0.1)
    say(neighbour.ticks() > before and not neighbour.failed() and
        neighbour.process.poll() is None,
        f'bombs: a neighbour works on beside {name} ({limit})',
        f'{neighbour.ticks() - before} bytes of ticks in {took:.1f} s')


def attack_limits(host):
    neighbour = Neighbour(host)
    for row in BOMBS:
        bomb(host, neighbour, row)
    status, out, err = run(host, pinfold(
        host, ['--limit', 'open_files=64'], ['./attacks/bomb', 'descriptors']))
    words = out.split()
    say(status == 0 and len(words) == 3 and int(words[1]) <= 64 and
        words[2] == 'EMFILE', 'bombs: descriptors are refused by open_files=64',
        f'status {status}, {out!r}, {err[-200:]!r}')
    neighbour.close()
    check_outside(host, 'resource')


def attack_clean_up(host):
    """What a task leaves in its layer must not lead pinfold outside."""
    script = '''
        rm -rf swap-me && ln -s "$1" swap-me
        mkdir deep && cd deep && i=0
        while [ $i -lt 60 ]; do mkdir d && cd d && i=$((i+1)); done
        cd "$2" && ln -s "$1" into && mkdir closed && touch closed/f
        chmod 0 closed
        printf x > "$(printf 'new\\nline')"
        mkfifo pipe && ln -s /proc/self/root root
    '''
    status, _, err = run(host, pinfold(
        host, [], ['sh', '-ec', script, 'sh', host.outside, host.source]))
    say(status == 0, 'clean-up: a task may leave links and closed directories',
        f'status {status}, {err[-300:]!r}')
    for verb in (['diff', '--json'], ['discard', '--yes']):
        status, out, err = run(host, [PINFOLD, *verb])
        say(status == 0 and host.canary not in out + err,
            f'clean-up: {verb[0]} follows no link out of what a task left',
            f'status {status}, {err[-300:]!r}')
    check_outside(host, 'clean-up')


def attack_by_remaining(host):
    """PEERS g, h: processes that try to live on after the command."""
    mark = host.marker + '-stays'
    script = ('setsid sh -c "exec -a x sleep 300; : $0" & '
              '(setsid sleep 300 & ) ; sh -c "kill -STOP $$; : $0" & exit 0')
    status, _, err = run(host, pinfold(host, [], ['sh', '-c', script, mark]))
    left = processes_of(mark)
    say(status == 0 and not left, 'processes: none lives on after the command',
        f'status {status}, left {left}, {err[-200:]!r}')
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    check_outside(host, 'remaining')


def attack_end_of_exec(host):
    """A session that forks without end must not outlive its exec; at the worst
    the whole sandbox ends, by its limit or because it cannot be won, and says
    which."""
    _, out, _ = run(host, [PINFOLD, 'start', '--source', host.source])
    task = out.strip()
    with subprocess.Popen([PINFOLD, 'exec', task, '--', './attacks/bomb',
                           'chains'], cwd=host.source, stdin=subprocess.DEVNULL,
                          env=host.environment(), stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL) as process:
        process.stdout.readline()
        time.sleep(0.5)
        process.kill()
    end = time.monotonic() + 30 * PATIENCE
    quiet = 0
    while quiet < 20 and time.monotonic() < end:
        quiet = 0 if processes_of('attacks/bomb') else quiet + 1
        time.sleep(0.02)
    status, _, err = run(host, [PINFOLD, 'exec', task, '--', 'true'])
    _, record, _ = run(host, [PINFOLD, 'ps', '--json', task])
    said = 'could not be ended' in record or '"limit":"' in record
    say(quiet == 20 and (status == 0 or said),
        'processes: none that forks without end outlives its exec',
        f'{processes_of("attacks/bomb")[:5]}, status {status}, {err!r}, '
        f'{record}')
    run(host, [PINFOLD, 'kill', task])
    check_outside(host, 'end of exec')


def prove(host):
    """Every attack outside: as root, as a user, and in a weak sandbox."""
    user = ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups',
            '--inh-caps=-all', '--']
    private = ['unshare', '--mount', '--propagation=private', '--']
    weak = ['bwrap', '--unshare-user', '--unshare-pid', '--dev-bind', '/',
            '/', '--proc', '/proc', '--cap-add', 'ALL', '--']
    # Pid 1 of a namespace where it is an ordinary process of root.
    first = ['unshare', '--pid', '--fork', '--mount-proc', '--', 'sh', '-c',
             '"$@"; exit $?', 'sh']
    worlds = {'root': private, 'user': private + user,
              'weak sandbox': user + weak, 'own pid 1': private + first}
    table = {}
    for world, prefix in worlds.items():
        owner = 65534 if world in ('user', 'weak sandbox') else 0
        host.chown(owner, owner)
        for name in planted.ATTACKS + ['terminal']:
            _, out, err = run_proof(host, prefix, name)
            if not out:
                say(False, f'prove: {name} as {world}', err[-300:])
            for line in out.splitlines():
                if line.count('\t') == 3:
                    word, attack, got, bare = line.split('\t')
                    table.setdefault(attack, {'bare': bare})[world] = word, got
    for attack, row in table.items():
        got = '; '.join(f'{w}: {row[w][1]}' for w in worlds if w in row)
        passed = [w for w in worlds if row.get(w, ('',))[0] == 'passed']
        if not passed and not row['bare']:
            say(False, attack, f'cannot fail: {got}')
        elif '--table' in sys.argv[1:]:
            limit, what = attack.split(': ', 1)
            note = 'succeeds: ' + ', '.join(passed) if passed else (
                f'not here: {row["bare"]}')
            print(f'| {limit} | {what} | {note} |')
        else:
            print(f'ok - {attack}: bare: {passed or row["bare"]} ({got})')


def run_proof(host, prefix, name):
    argv = prefix + [f'{host.source}/attacks/{name}', '--prove',
                     *host.arguments()]
    if name != 'terminal':
        with open(f'{host.base}/log', 'w+b') as log, \
                open(f'{host.base}/log', 'rb') as again:
            return run(host, argv, timeout=60, stderr=log, stdin=again)
    master, slave = pty.openpty()
    argv = argv[:-1] + [argv[-1], f'ptsdev={os.fstat(slave).st_dev}']
    result = run(host, ['setsid', '--ctty', '--wait', *argv], stdin=slave)
    os.close(master)
    os.close(slave)
    return result


def main():
    proving = '--prove' in sys.argv[1:]
    # Ended from outside, it still takes its planted things away.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(143))
    # In a user namespace uid 0 may not give files to others.
    with open('/proc/self/uid_map', encoding='ascii') as f:
        whole = f.read().split() == ['0', '0', '4294967295']
    host = planted.Host(PROGRAMS, os.geteuid() == 0 and whole)
    try:
        if proving:
            prove(host)
        else:
            attack_all(host)
            attack_terminal(host)
            attack_by_remaining(host)
            attack_end_of_exec(host)
            attack_clean_up(host)
            attack_limits(host)
    finally:
        host.close()
    return 1 if failures else 0


if __name__ == '__main__':
    sys.exit(main())

"""What the black-box tests stand on: a caller with a home, a source and a
state directory of its own, and a look from outside at what a task leaves.

A test is a function whose name is a sentence and that is marked by @case;
main() runs them in the order of their text, each with a fresh source. A wait
has a bound that is ten times what is promised, so that a slow machine does not
fail a test, and says how long it took; PINFOLD_TEST_PATIENCE multiplies every
bound where the machine is slower by its nature (an emulated one).
"""
import functools
import hashlib
import json
import os
import pty
import pwd
import re
import select
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
import traceback

PINFOLD = os.environ.get('PINFOLD') or os.path.join(
    os.path.dirname(os.path.abspath(__file__)), '../../build/bin/pinfold')
SITUATION = os.environ.get('PINFOLD_SITUATION') or (
    'root' if os.geteuid() == 0 else 'user')
ROOT = SITUATION == 'root'
PATIENCE = float(os.environ.get('PINFOLD_TEST_PATIENCE', '1'))
WAIT_S = 60
GONE_S = 10  # ten times the second that is promised
ID = re.compile(r't-[a-z2-7]{16}')
# What a task without changes may leave in its directory.
RECORD_FILES = {'task.json', 'policy.json', 'lock'}
CASES = []


class Failure(Exception):
    pass


class Skip(Exception):
    pass


def case(function):
    CASES.append(function)
    return function


def long_case(function):
    """A case that waits or works for long: in one situation, unless all."""
    @functools.wraps(function)
    def once(box):
        if SITUATION in ('root', 'userns') and 'PINFOLD_ALL' not in os.environ:
            raise Skip('long: as an ordinary user, elsewhere with --all')
        return function(box)
    return case(once)


def check(condition, why):
    if not condition:
        raise Failure(why() if callable(why) else str(why))


def equal(got, wanted, what=''):
    check(got == wanted, lambda: f'{what}: got {short(got)}, '
          f'not {short(wanted)}')


def within(got, text, what=''):
    check(text in got, lambda: f'{what}: {short(text)} not in {short(got)}')


def short(value):
    text = repr(value)
    return text if len(text) < 500 else f'{text[:300]}...{text[-150:]}'


def patient(seconds):
    """A bound in seconds, as long as this machine deserves."""
    return seconds * PATIENCE


def wait_for(condition, seconds=10, what='the condition'):
    """Returns what condition returned, and raises when it never was true."""
    seconds = patient(seconds)
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise Failure(f'{what} did not come within {seconds} s')
        time.sleep(0.01)


class Result:
    def __init__(self, status, out, err, seconds):
        self.status = status
        self.out = out
        self.err = err
        self.seconds = seconds

    def __repr__(self):
        return (f'status {self.status}, stdout {short(self.out)}, '
                f'stderr {short(self.err)}')

    def text(self):
        return self.err.decode('utf-8', 'replace')

    def json(self):
        """The object that --json wrote as standard error's last line."""
        return json.loads(self.err.decode().rstrip('\n').rsplit('\n', 1)[-1])

    def expect(self, status=0, out=None, text=None):
        check(self.status == status, f'not status {status}: {self}')
        if out is not None:
            check(self.out == out, f'not {short(out)}: {self}')
        if text is not None:
            check(text in self.text(), f'not said {text!r}: {self}')
        return self


def start_time(pid):
    try:
        with open(f'/proc/{pid}/stat', 'rb') as f:
            fields = f.read().rsplit(b')', 1)[1].split()
    except OSError:
        return None
    return None if fields[0] in (b'Z', b'X') else int(fields[19])


def parents():
    found = {}
    for pid in os.listdir('/proc'):
        if pid.isdigit():
            try:
                with open(f'/proc/{pid}/stat', 'rb') as f:
                    fields = f.read().rsplit(b')', 1)[1].split()
                found[int(pid)] = int(fields[1])
            except OSError:
                pass
    return found


def below(pid):
    """Mapping pid to start time of all descendants of pid."""
    table, found, todo = parents(), {}, [pid]
    while todo:
        top = todo.pop()
        for child, parent in table.items():
            if parent == top:
                found[child] = start_time(child)
                todo.append(child)
    return {p: t for p, t in found.items() if t is not None}


def command_of(pid):
    try:
        with open(f'/proc/{pid}/comm', encoding='utf-8',
                  errors='replace') as f:
            return f.read().strip()
    except OSError:
        return ''


def find_below(pid, name):
    for child in below(pid):
        if command_of(child) == name:
            return child
    return None


def ours():
    """The processes that can be of this test: tests/run has another one beside
    it, which root sees."""
    lane = os.environ.get('PINFOLD_LANE')
    if lane and SITUATION != 'userns':
        return set(below(int(lane)))
    return {int(pid) for pid in os.listdir('/proc') if pid.isdigit()}


def processes_with(text):
    """Pids of ours whose arguments or environment hold text."""
    found = []
    for pid in sorted(ours() - {os.getpid()}):
        for name in ('cmdline', 'environ'):
            try:
                with open(f'/proc/{pid}/{name}', 'rb') as f:
                    if os.fsencode(text) in f.read():
                        found.append(pid)
                        break
            except OSError:
                pass
    return found


def tree_state(top):
    """Everything a test can see of the files below top."""
    state = {}
    for folder, folders, files in os.walk(os.fsencode(top)):
        for name in [b'.'] + folders + files:
            path = os.path.join(folder, name)
            st = os.lstat(path)
            what = (st.st_mode, st.st_uid, st.st_gid, st.st_mtime_ns,
                    st.st_ino, st.st_nlink)
            if stat.S_ISREG(st.st_mode):
                what += (st.st_size,)
                if os.access(path, os.R_OK):
                    with open(path, 'rb') as f:
                        what += (hashlib.sha256(f.read()).hexdigest(),)
            elif stat.S_ISLNK(st.st_mode):
                what += (os.readlink(path),)
            state[path] = what
    return state


class Box:
    """A caller of pinfold; close() takes all of it away."""

    def __init__(self):
        self.top = os.path.realpath(tempfile.mkdtemp(prefix='box.'))
        self.home = f'{self.top}/home'
        self.source = f'{self.home}/src'
        self.run_dir = f'{self.top}/run'
        for path in (self.home, self.source, self.run_dir):
            os.mkdir(path, 0o700)
        os.chmod(self.source, 0o755)
        self.state = '/var/lib/pinfold'
        if os.geteuid() != 0:
            self.state = f'{self.top}/state/pinfold'
        self.sockets = '/run/pinfold' if ROOT else f'{self.run_dir}/pinfold'
        name = pwd.getpwuid(os.geteuid()).pw_name
        self.env = {'PATH': '/usr/local/bin:/usr/bin:/bin', 'USER': name,
                    'HOME': self.home, 'LOGNAME': name, 'LANG': 'C.UTF-8',
                    'TERM': 'xterm', 'XDG_STATE_HOME': f'{self.top}/state',
                    'XDG_RUNTIME_DIR': self.run_dir}
        # In a login session its systemd can be asked for a control group.
        bus = os.environ.get('XDG_RUNTIME_DIR', '/nowhere') + '/bus'
        if os.path.exists(bus):
            os.symlink(bus, f'{self.run_dir}/bus')
        # Root's tasks lie in the machine's own state, beside those of others.
        self.old = set(self.tasks()) if ROOT else set()
        self.started = []  # ids of sandboxes that stay
        self.popen = []

    # ---- running ----

    def spawn(self, argv, **more):
        options = {'cwd': self.source, 'env': self.env,
                   'stdin': subprocess.DEVNULL, 'stdout': subprocess.PIPE,
                   'stderr': subprocess.PIPE, 'start_new_session': True,
                   **more}
        if os.path.basename(argv[0]) == 'strace':
            # A build with sanitizers cannot look for leaks under it.
            options['env'] = {**options['env'],
                              'ASAN_OPTIONS': 'detect_leaks=0'}
        process = subprocess.Popen(argv, **options)
        self.popen.append(process)
        return process

    def finish(self, process, data=None, timeout=WAIT_S, began=None):
        began = began or time.monotonic()
        timeout = patient(timeout)
        try:
            out, err = process.communicate(data, timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            raise Failure(f'{short(process.args[1:6])} hangs for '
                          f'{timeout} s') from None
        return Result(process.returncode, out, err, time.monotonic() - began)

    def pinfold(self, *argv, data=None, timeout=WAIT_S, **more):
        """Runs pinfold with these arguments to its end."""
        began = time.monotonic()
        if data is not None:
            more['stdin'] = subprocess.PIPE
        process = self.spawn([PINFOLD, *argv], **more)
        return self.finish(process, data, timeout, began)

    def run(self, *words, data=None, **more):
        """pinfold run: options, then '--', then the command."""
        return self.pinfold('run', *words, data=data, **more)

    def sh(self, script, *options, **more):
        return self.run(*options, '--', 'sh', '-c', script, **more)

    def start(self, *options, **more):
        r = self.pinfold('start', *options, **more).expect(0)
        task = r.out.decode().strip()
        check(ID.fullmatch(task), f'start prints {task!r}')
        self.started.append(task)
        return task

    def exec(self, task, *words, **more):
        return self.pinfold('exec', task, *words, **more)

    def kill(self, task):
        r = self.pinfold('kill', task)
        if task in self.started:
            self.started.remove(task)
        return r

    # ---- looking ----

    def folder(self, task):
        return f'{self.state}/tasks/{task}'

    def record(self, task):
        with open(f'{self.folder(task)}/task.json', encoding='utf-8') as f:
            return json.load(f)

    def changes(self, task):
        r = self.pinfold('diff', '--json', task).expect(0)
        return json.loads(r.out)

    def cgroups(self, task):
        found = []
        with open('/proc/self/cgroup', encoding='ascii') as f:
            for line in f:
                _, names, path = line.rstrip('\n').split(':', 2)
                tops = [f'/sys/fs/cgroup/{names}'] if names else \
                    ['/sys/fs/cgroup/unified', '/sys/fs/cgroup']
                for top in tops:
                    for at in (path, '/'):
                        group = os.path.normpath(f'{top}{at}/pinfold-{task}')
                        if os.path.isdir(group) and group not in found:
                            found.append(group)
        # A scope that systemd delegated, and removes.
        uid = os.geteuid()
        for slice in ('system.slice', f'user.slice/user-{uid}.slice/'
                      f'user@{uid}.service/app.slice'):
            scope = f'/sys/fs/cgroup/{slice}/pinfold-{task}.scope'
            if os.path.isdir(scope):
                found.append(scope)
        return found

    def left_of(self, task, processes=None):
        """What is still there of an ended task, as a list of words."""
        left = [f'process {pid} {command_of(pid)}'
                for pid, born in (processes or {}).items()
                if start_time(pid) == born]
        left += [f'process {pid} {command_of(pid)}'
                 for pid in processes_with(f'PINFOLD_TASK={task}')]
        left += [f'cgroup {path}' for path in self.cgroups(task)]
        with open('/proc/self/mountinfo', encoding='utf-8') as f:
            left += [f'mount {line.split()[4]}' for line in f if task in line]
        if os.path.lexists(f'{self.sockets}/{task}'):
            left.append('its socket')
        return left

    def files_left_of(self, task, kept=()):
        try:
            names = set(os.listdir(self.folder(task)))
        except FileNotFoundError:
            return []
        names = {n for n in names if not n.startswith('out.')}
        left = sorted(names - RECORD_FILES - set(kept))
        if os.path.lexists(f'{self.state}/live/{task}'):
            left.append(f'live/{task}')
        return left

    def gone(self, task, processes=None, kept=(), files=True):
        """Waits until nothing is left; returns how long that took."""
        began = time.monotonic()
        while True:
            left = self.left_of(task, processes)
            if files:
                left += self.files_left_of(task, kept)
            took = time.monotonic() - began
            if not left:
                return took
            if took > patient(GONE_S):
                raise Failure(f'left after {took:.0f} s: {left[:6]}')
            time.sleep(0.02)

    def write(self, name, text='', mode=0o644):
        path = os.path.join(os.fsencode(self.source), os.fsencode(name))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, 'wb') as f:
            f.write(text if isinstance(text, bytes) else text.encode())
        os.chmod(path, mode)
        return os.fsdecode(path)

    def tasks(self):
        try:
            return os.listdir(f'{self.state}/tasks')
        except OSError:
            return []

    def forget(self):
        """Removes the tasks of this box's sources from the state of root."""
        own = []
        for task in set(self.tasks()) - self.old:
            try:
                with open(f'{self.folder(task)}/task.json', 'rb') as f:
                    source = json.load(f).get('source') or ''
            except (OSError, ValueError):
                continue
            if source == self.top or source.startswith(f'{self.top}/'):
                own.append(task)
        if own:
            self.pinfold('rm', '--changes', *own)

    def close(self):
        for process in self.popen:
            if process.poll() is None:
                process.kill()
                process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream:
                    try:
                        stream.close()
                    except OSError:
                        pass
        for task in list(self.started):
            self.pinfold('kill', task)
        if ROOT:
            self.forget()
        subprocess.run(['chmod', '-R', 'u+rwX', self.top], check=False,
                       stderr=subprocess.DEVNULL)
        shutil.rmtree(self.top, ignore_errors=True)


def read_until(fd, text, seconds=20):
    """Reads a descriptor until text was seen; returns all that came."""
    data, end = b'', time.monotonic() + patient(seconds)
    while text not in data:
        left = end - time.monotonic()
        ready = left > 0 and select.select([fd], [], [], left)[0]
        try:
            block = os.read(fd, 65536) if ready else b''
        except OSError:
            block = b''
        if not block:
            raise Failure(f'{short(text)} did not come; got {short(data)}')
        data += block
    return data


def answer(box, text, *words):
    """What a command, or pinfold promote, asks on a terminal, and its status
    after text."""
    main_fd, fd = pty.openpty()
    process = subprocess.Popen([PINFOLD, *(words or ['promote'])], stdin=fd,
                               stdout=fd, stderr=fd, cwd=box.source,
                               env=box.env, start_new_session=True)
    os.close(fd)
    seen = read_until(main_fd, b'[y/N] ')
    os.write(main_fd, text)
    status = process.wait(60)
    os.close(main_fd)
    return seen.decode(), status


def main():
    failed = 0
    wanted = sys.argv[1:]
    os.umask(0o022)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    for function in CASES:
        sentence = function.__name__.replace('_', ' ')
        if wanted and not any(w in sentence for w in wanted):
            continue
        box, began = Box(), time.monotonic()
        try:
            said = function(box)
            line = f'ok - {sentence}' + (f' ({said})' if said else '')
        except Skip as e:
            line = f'skip - {sentence}: {e}'
        except (Failure, subprocess.SubprocessError) as e:
            line = f'not ok - {sentence}: {e}'
        except Exception as e:  # a test's own fault is a failure too
            at = traceback.extract_tb(e.__traceback__)[-1]
            line = f'not ok - {sentence}: {e!r} at line {at.lineno}'
        finally:
            box.close()
        failed += line.startswith('not ok')
        if wanted:
            line += f' [{time.monotonic() - began:.2f} s]'
        print(line.replace('\n', ' '), flush=True)
    return 1 if failed else 0

"""What the attacks aim at: planted files, sockets, listeners and processes.

Everything lies below one directory or carries one marker, is stopped by its own
id, and says afterwards what reached it: an attack's errno is not believed.
"""
import ctypes
import hashlib
import os
import secrets
import select
import shutil
import signal
import socket
import stat
import struct
import subprocess
import tempfile
import threading

ATTACKS = ['files', 'procfs', 'mounts', 'kernel', 'processes', 'sockets',
           'devices', 'races', 'leaks', 'confine']
SECRET_NAMES = ['SSH_AUTH_SOCK', 'AWS_SECRET_ACCESS_KEY', 'GITHUB_TOKEN',
                'DBUS_SESSION_BUS_ADDRESS', 'LD_PRELOAD_ESCAPE']
# Capability in a file: revision 2, effective, CAP_DAC_READ_SEARCH.
FILE_CAPABILITY = struct.pack('<IIIII', 0x02000001, 1 << 2, 0, 0, 0)
LIBC = ctypes.CDLL(None, use_errno=True)
USER_KEYRING, KEYCTL_UNLINK = -4, 9  # linux/keyctl.h


def host_address():
    """An address of this host that is not a loopback, or 'none'."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        try:
            s.connect(('192.0.2.1', 9))
        except OSError:
            return 'none'
        return s.getsockname()[0]


def write(path, text, mode=0o644):
    with open(path, 'w', encoding='utf-8') as f:
        f.write(text)
    os.chmod(path, mode)


def use_up_low_numbers():
    """The host's process must not share its number with one inside."""
    while True:
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
        if pid > 2000:
            return


def tree_state(top):
    """Names, kinds, modes and contents below top, as a mapping."""
    state = {}
    for folder, folders, files in os.walk(top):
        for name in folders + files:
            path = os.path.join(folder, name)
            st = os.lstat(path)
            what = (stat.S_IFMT(st.st_mode), st.st_mode & 0o7777, st.st_uid)
            if stat.S_ISREG(st.st_mode):
                with open(path, 'rb') as f:
                    what += (hashlib.sha256(f.read()).hexdigest(),)
            elif stat.S_ISLNK(st.st_mode):
                what += (os.readlink(path),)
            state[os.path.relpath(path, top)] = what
    return state


class Listeners:
    """Sockets and FIFOs of the host with a thread that counts arrivals."""

    def __init__(self):
        self.arrived = []
        self.sockets = {}
        self.fifos = {}
        self.wake_read, self.wake_write = os.pipe()
        self.thread = threading.Thread(target=self.watch, daemon=True)

    def add_stream(self, name, family, address):
        s = socket.socket(family, socket.SOCK_STREAM)
        if family == socket.AF_INET6:
            s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        s.bind(address)
        s.listen(64)
        s.setblocking(False)
        self.sockets[s] = name
        return s

    def add_datagram(self, name, family, address):
        s = socket.socket(family, socket.SOCK_DGRAM)
        s.bind(address)
        s.setblocking(False)
        self.sockets[s] = name
        return s

    def add_fifo(self, path):
        os.mkfifo(path, 0o666)
        os.chmod(path, 0o666)
        fd = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self.fifos[fd] = path

    def watch(self):
        while True:
            ready, _, _ = select.select(
                list(self.sockets) + list(self.fifos) + [self.wake_read],
                [], [])
            if self.wake_read in ready:
                return
            for source in ready:
                self.take(source)

    def take(self, source):
        if source in self.fifos:
            self.arrived.append(self.fifos[source])
            os.read(source, 4096)
            return
        self.arrived.append(self.sockets[source])
        try:
            if source.type == socket.SOCK_STREAM:
                source.accept()[0].close()
                return
            _, sender = source.recvfrom(4096)
            if sender:
                source.sendto(b'answer', sender)
        except OSError:
            pass

    def start(self):
        self.thread.start()

    def close(self):
        os.write(self.wake_write, b'x')
        self.thread.join(5)
        for s in self.sockets:
            s.close()
        for fd in (*self.fifos, self.wake_read, self.wake_write):
            os.close(fd)


class Host:
    """The planted things. close() takes all of them away again."""

    def __init__(self, programs, capable):
        self.programs = programs
        self.capable = capable  # may give files to others and capabilities
        self.marker = 'pinfold-escape-' + secrets.token_hex(6)
        self.canary = 'canary-' + secrets.token_hex(12)
        self.base = tempfile.mkdtemp(prefix='escape.')
        os.chmod(self.base, 0o755)
        self.outside = f'{self.base}/outside'
        self.home = f'{self.base}/home'
        self.source = f'{self.home}/project'
        self.grant = f'{self.base}/grant'
        self.singles = []
        self.listeners = Listeners()
        self.plant_files()
        self.plant_programs()
        self.plant_sockets()
        self.plant_descriptors()
        self.plant_key()
        self.sleep_time = '3600.0' + str(int(self.marker[-12:], 16))
        use_up_low_numbers()
        self.sentinel = subprocess.Popen(
            ['sleep', self.sleep_time],
            env={'MARK': self.marker, 'PATH': os.environ['PATH']},
            start_new_session=True)
        self.before = self.state()

    def plant_files(self):
        for path in (self.outside, self.home, self.source, self.grant,
                     f'{self.home}/.ssh', f'{self.home}/.aws'):
            os.mkdir(path, 0o755)
        secret = self.canary + '\n'
        write(f'{self.outside}/secret', secret)
        write(f'{self.outside}/swapped', secret)
        for name in ('.ssh/id_ed25519', '.aws/credentials', '.bash_history'):
            write(f'{self.home}/{name}', secret, 0o600)
        for name in ('.env', '.npmrc'):
            write(f'{self.source}/{name}', secret)
        write(f'{self.source}/swap-me', 'mine\n')
        write(f'{self.grant}/file', 'granted\n')
        os.link(f'{self.outside}/secret', f'{self.outside}/other-name')
        write(f'{self.outside}/twin', 'twin\n')
        os.link(f'{self.outside}/twin', f'{self.source}/twin')
        os.symlink(f'{self.outside}/secret', f'{self.source}/link-out')
        os.symlink(self.outside, f'{self.source}/dir-out')
        for place in ('/tmp', '/var/tmp', '/dev/shm'):
            path = f'{place}/{self.marker}'
            write(path, secret)
            self.singles.append(path)

    def copy_gain(self, path, mode, uid=-1, gid=-1):
        shutil.copy(f'{self.programs}/attack-gain', path)
        if uid != -1 or gid != -1:
            os.chown(path, uid, gid)
        os.chmod(path, mode)

    def plant_programs(self):
        os.mkdir(f'{self.source}/attacks')
        for name in ATTACKS + ['terminal', 'bomb']:
            shutil.copy(f'{self.programs}/attack-{name}',
                        f'{self.source}/attacks/{name}')
        self.copy_gain(f'{self.source}/gain', 0o755)
        self.copy_gain(f'{self.source}/gain-suid-own', 0o6755)
        if not self.capable:
            return
        for folder in (self.source, self.grant):
            self.copy_gain(f'{folder}/gain-suid-root', 0o4755, 0, 0)
        self.copy_gain(f'{self.source}/gain-suid-other', 0o4755, 12345, 0)
        self.copy_gain(f'{self.source}/gain-sgid-root', 0o2755, -1, 0)
        self.copy_gain(f'{self.source}/gain-cap', 0o755)
        os.setxattr(f'{self.source}/gain-cap', 'security.capability',
                    FILE_CAPABILITY)

    def plant_sockets(self):
        ears = self.listeners
        tcp = ears.add_stream('tcp', socket.AF_INET, ('0.0.0.0', 0))
        self.port = tcp.getsockname()[1]
        try:
            ears.add_stream('tcp6', socket.AF_INET6, ('::', self.port))
        except OSError:
            pass
        udp = ears.add_datagram('udp', socket.AF_INET, ('0.0.0.0', 0))
        self.udp_port = udp.getsockname()[1]
        ears.add_stream('abstract', socket.AF_UNIX, '\0' + self.marker)
        ears.add_datagram('abstract datagram', socket.AF_UNIX,
                          f'\0{self.marker}-d')
        for folder in (self.source, self.grant, self.outside):
            ears.add_stream(f'{folder}/sock', socket.AF_UNIX,
                            f'{folder}/sock')
            os.chmod(f'{folder}/sock', 0o777)
        ears.add_datagram('datagram in the grant', socket.AF_UNIX,
                          f'{self.grant}/sock-d')
        os.chmod(f'{self.grant}/sock-d', 0o777)
        for folder in (self.source, self.grant):
            ears.add_fifo(f'{folder}/fifo')
        ears.start()

    def plant_descriptors(self):
        """What a careless caller leaves open when it starts pinfold."""
        ours, theirs = socket.socketpair()
        memory = os.memfd_create('escape', 0)
        os.write(memory, self.canary.encode())
        fds = [os.open(self.outside, os.O_RDONLY | os.O_DIRECTORY),
               os.open('/', os.O_PATH), theirs.detach(), memory,
               os.open(f'{self.outside}/swapped', os.O_RDWR)]
        self.socket_end = ours
        # At low, middle and high numbers, as callers have them.
        self.inherited = []
        for fd, number in zip(fds, (3, 4, 57, 200, 777)):
            if number < 10:
                self.inherited.append(fd)
            else:
                self.inherited.append(os.dup2(fd, number))
                os.close(fd)

    def plant_key(self):
        """A key of the caller's uid, as a login leaves them (keyrings(7))."""
        calls = {'x86_64': (248, 250), 'aarch64': (217, 219)}
        add_key, self.keyctl = calls[os.uname().machine]
        payload = self.canary.encode()
        self.key = LIBC.syscall(
            ctypes.c_long(add_key), b'user', self.marker.encode(), payload,
            ctypes.c_size_t(len(payload)), ctypes.c_int(USER_KEYRING))

    def remove_key(self):
        # A machine that gives no keys (a container's filter) had none planted.
        if self.key > 0:
            LIBC.syscall(ctypes.c_long(self.keyctl), ctypes.c_int(KEYCTL_UNLINK),
                         ctypes.c_int(self.key), ctypes.c_int(USER_KEYRING))

    def chown(self, uid, gid):
        """Gives what the caller of pinfold would own to that user."""
        for folder, folders, files in os.walk(self.base):
            for path in [folder] + [f'{folder}/{n}' for n in folders + files]:
                name = os.path.basename(path)
                if not name.startswith('gain-') or name == 'gain-suid-own':
                    os.chown(path, uid, gid, follow_symlinks=False)
        for path in self.singles:
            os.chown(path, uid, gid)
        os.chmod(f'{self.source}/gain-suid-own', 0o6755)
        self.before = self.state()

    def environment(self):
        env = {'PATH': os.environ['PATH'], 'HOME': self.home,
               'LANG': 'C.UTF-8', 'TERM': 'xterm'}
        for name in ('XDG_RUNTIME_DIR', 'USER', 'LOGNAME', 'TMPDIR'):
            if name in os.environ:
                env[name] = os.environ[name]
        for name in SECRET_NAMES:
            env[name] = self.canary
        return env

    def arguments(self):
        machine = 'none'
        if os.path.exists('/etc/machine-id'):
            with open('/etc/machine-id', encoding='ascii') as f:
                machine = f.read().strip() or 'none'
        values = {
            'outside': self.outside, 'home': self.home,
            'source': self.source, 'grant': self.grant,
            'hosttmp': self.singles[0], 'hostvartmp': self.singles[1],
            'hostshm': self.singles[2], 'marker': self.marker,
            'port': self.port, 'udpport': self.udp_port,
            'hostaddress': host_address(), 'hostname': os.uname().nodename,
            'machineid': machine, 'canary': self.canary,
            'sleeptime': self.sleep_time, 'sentinel': self.sentinel.pid,
            'rootdev': os.stat('/').st_dev,
            'secretsize': len(self.canary) + 1,
        }
        return [f'{key}={value}' for key, value in values.items()]

    def state(self):
        """All that must be the same afterwards."""
        everything = {'tree': tree_state(self.base),
                      'host name': os.uname().nodename}
        everything['home'] = sorted(os.listdir(self.home))
        for path in ('/proc/sys/kernel/core_pattern',
                     '/proc/sys/kernel/modprobe',
                     '/proc/sys/vm/overcommit_memory',
                     '/proc/sys/net/ipv4/ip_forward'):
            if os.access(path, os.R_OK):
                with open(path, 'rb') as f:
                    everything[path] = f.read()
        for path in ('/usr', '/usr/bin', '/etc', '/'):
            everything[path] = [n for n in os.listdir(path)
                                if 'pinfold-escape' in n]
        for path in ('/usr/bin/env', '/etc/passwd'):
            st = os.stat(path)
            everything[f'mode of {path}'] = st.st_mode, st.st_uid, st.st_gid
        with open('/proc/self/mounts', encoding='utf-8') as f:
            everything['mounts'] = f.read()
        return everything

    def differences(self):
        """Sentences on what is not as it was; empty when all is."""
        faults = [f'{name} was reached' for name in
                  sorted(set(self.listeners.arrived))]
        now = self.state()
        for key, value in self.before.items():
            if key == 'tree':
                for name in sorted(set(value) ^ set(now[key])):
                    if not name.startswith(('home/.local', 'home/.cache')):
                        faults.append(f'{name} came or went')
                faults += [f'{name} changed' for name in value
                           if name in now[key] and value[name] != now[key][name]]
            elif key == 'mounts':
                faults += [f'mount {line!r} came' for line in
                           set(now[key].splitlines()) - set(value.splitlines())
                           if 'pinfold' in line or self.base in line]
            elif key != 'home' and value != now[key]:
                faults.append(f'{key} changed')
        if self.sentinel.poll() is not None:
            faults.append('the host process ended')
        ready, _, _ = select.select([self.socket_end], [], [], 0)
        if ready:
            faults.append('the inherited socket was used')
        return faults

    def close(self):
        self.sentinel.send_signal(signal.SIGKILL)
        self.sentinel.wait()
        self.remove_key()
        self.listeners.close()
        self.socket_end.close()
        for fd in self.inherited:
            os.close(fd)
        for path in self.singles:
            if os.path.exists(path):
                os.unlink(path)
        subprocess.run(['chmod', '-R', 'u+rwX', self.base], check=False,
                       stderr=subprocess.DEVNULL)
        shutil.rmtree(self.base, ignore_errors=True)

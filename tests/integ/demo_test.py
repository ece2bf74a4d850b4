#!/usr/bin/python3
# limit: 240 s
"""The example of `make run`, with canaries of ours on the host.

First the poisoned dependency runs outside of any sandbox and succeeds: what it
tries is possible here. Then the example runs, and everything it was after is
looked at from outside.
"""
import glob
import hashlib
import os
import pty
import re
import secrets
import shutil
import socket
import subprocess
import sys
import threading
import time

TOP = os.environ['PINFOLD_TOP']
TMP = os.environ['TMPDIR']
HOME = f'{TMP}/home'
PATIENCE = float(os.environ.get('PINFOLD_TEST_PATIENCE', '1'))
CANARY = secrets.token_hex(16)
failed = False


def check(sentence, holds, why=''):
    global failed
    if holds:
        print(f'ok - {sentence}')
    else:
        failed = True
        print(f'not ok - {sentence}: {why}')


class Listener:
    """TCP and UDP on every address of the host; counts who comes."""

    def __init__(self):
        self.count = 0
        self.tcp = socket.create_server(('0.0.0.0', 0))
        self.port = self.tcp.getsockname()[1]
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind(('0.0.0.0', self.port))
        for serve in (self.serve_tcp, self.serve_udp):
            threading.Thread(target=serve, daemon=True).start()

    def serve_tcp(self):
        while True:
            self.tcp.accept()[0].close()
            self.count += 1

    def serve_udp(self):
        while True:
            self.udp.recv(16)
            self.count += 1


def name_and_address():
    """The host as the sandbox may try to call it; connects nowhere."""
    name = socket.gethostname()
    try:
        socket.gethostbyname(name)
    except OSError:
        name = 'localhost'
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        try:
            s.connect(('192.0.2.1', 9))
            return name, s.getsockname()[0]
        except OSError:
            return name, '127.0.0.1'


def tree(directory):
    """Names, modes and contents."""
    digest = hashlib.sha256()
    for folder, names, files in sorted(os.walk(directory)):
        for name in sorted(names + files):
            path = os.path.join(folder, name)
            digest.update(f'{path} {os.lstat(path).st_mode}'.encode())
            if os.path.isfile(path):
                with open(path, 'rb') as f:
                    digest.update(f.read())
    return digest.hexdigest()


def plant_canaries():
    for name in ('.ssh/id_ed25519', '.aws/credentials', '.bashrc'):
        os.makedirs(os.path.dirname(f'{HOME}/{name}'), exist_ok=True)
        with open(f'{HOME}/{name}', 'w', encoding='utf-8') as f:
            f.write(f'canary {CANARY}\n')


def environment(**more):
    return os.environ | {
        'HOME': HOME, 'XDG_STATE_HOME': f'{TMP}/state',
        'XDG_CACHE_HOME': f'{TMP}/cache', 'AWS_SECRET_ACCESS_KEY': CANARY,
        'GITHUB_TOKEN': CANARY, 'DEMO_HOME': HOME} | more


def attack_unconfined(where):
    """The dependency's own report, when nothing holds it."""
    source = f'{TMP}/control/source'
    shutil.copytree(f'{TOP}/examples/fairshare', source)
    os.makedirs(f'{source}/.git/hooks')
    with open(f'{source}/.env', 'w', encoding='utf-8'):
        pass
    done = subprocess.run(
        ['/usr/bin/python3', '-B', '-c', 'import tabulary'], check=False,
        cwd=source, stdout=subprocess.PIPE, text=True, timeout=60 * PATIENCE,
        env=environment(PINFOLD_TASK='none', PYTHONPATH='vendor',
                        DEMO_LISTENER=where, TMPDIR=f'{TMP}/control'))
    return dict(re.findall(r'^tabulary: (.+): ([\w ]+)$', done.stdout, re.M))


def control(listener, where):
    name, address, port = where.split(' ')
    got = attack_unconfined(where)
    for what in ('read ~/.ssh/id_ed25519', f'read {HOME}/.aws/credentials',
                 'read .env', 'variable GITHUB_TOKEN',
                 f'connect {name}:{port}', f'connect {address}:{port}',
                 f'sendto {address}:{port}', 'write ../planted',
                 'write .git/hooks/post-commit'):
        check(f'outside of a sandbox the dependency can {what.split(" ")[0]} '
              f'{what.split(" ")[1].replace(HOME, "HOME")}',
              got.get(what) == 'done', got)
    time.sleep(0.2)
    check('outside of a sandbox the dependency reaches the listener',
          listener.count == 3, listener.count)
    check('outside of a sandbox the dependency writes beside the source',
          os.path.exists(f'{TMP}/control/planted'))


def run_example(where, *words, **more):
    done = subprocess.run(
        [f'{TOP}/examples/run', '--listener', where.replace(' ', ':'), *words],
        check=False, env=environment(**more), cwd=TMP, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, timeout=120 * PATIENCE)
    return done.returncode, done.stdout


def on_a_terminal(where, answer=None, **more):
    """answer: what is typed when it asks; None: it cannot ask."""
    master, slave = pty.openpty()
    output = b''
    with subprocess.Popen(
            [f'{TOP}/examples/run', '--listener', where.replace(' ', ':')],
            env=environment(**more), cwd=TMP,
            stdin=slave if answer else subprocess.DEVNULL,
            stdout=slave, stderr=slave) as run:
        os.close(slave)
        try:
            while data := os.read(master, 65536):
                output += data
                if answer and b'? [y/N] ' in output:
                    os.write(master, answer)
                    answer = None
        except OSError:
            pass
        run.wait()
    os.close(master)
    return output


def look_at(text, where):
    """What the screen has to say."""
    name, address, port = where.split(' ')
    for sentence, pattern in (
            ('keys at home are not there',
             r'read ~/\.ssh/id_ed25519 +ENOENT +not present: default rule'),
            ("keys at the caller's home are not there",
             rf'read {HOME}/\.ssh/id_ed25519 +ENOENT +not present'),
            ('what the policy denies is hidden by its rule',
             r'read \.env +ENOENT +hidden: files\.deny'),
            ('secrets of the environment are not there',
             r'variable GITHUB_TOKEN +unset +not present: default rule'),
            ('the metadata address is refused by the rule of the record',
             r'connect 169\.254\.169\.254:80 +ENETUNREACH +'
             r'network: default deny \(in the record\)'),
            ('the name of the host is refused',
             rf'connect {re.escape(name)}:{port} +'
             r'(unknown name|ECONNREFUSED) +\S.*default'),
            ('the address of the host is refused',
             rf'connect {re.escape(address)}:{port} +'
             r'(ENETUNREACH|ECONNREFUSED) +\S.*default'),
            ("the host's Unix socket is not there",
             r'connect \.\./service +ENOENT +not present: default rule'),
            ('the system is read-only',
             r'write /usr/bin/git +(EACCES|EROFS) +read-only: default rule'),
            ('a planted hook is shown', r'added .*\.git/hooks/post-commit'),
            ('the fix is shown', r'modified .*fairshare/split\.py'),
            ('the agent fixed the test', r'agent: 5 tests, 0 failed'),
            ('the disk filler met its limit', r'stopped +limits\.disk'),
            ('the fork bomb met its limit', r'stopped +limits\.processes')):
        check(f'the screen shows that {sentence}', re.search(pattern, text),
              text[-6000:])
    check('the screen shows what each task cost',
          len(re.findall(r's, of the processor .*; memory .*; processes \S+',
                         text)) == 3, text[-6000:])
    records = re.findall(r'^    (/.*/task\.json)$', text, re.M)
    check('the three records are where the screen says', len(records) == 3 and
          all(os.path.exists(r) for r in records), records)
    written = ''.join(open(r, encoding='utf-8').read() for r in records
                      if os.path.exists(r))
    check('no secret is on the screen or in a record',
          CANARY not in text and CANARY not in written)


def taking_over(where):
    status, text = run_example(where, '--yes')
    check('with --yes the example takes the fix over and ends with 0',
          status == 0, text[-6000:])
    for sentence, pattern in (
            ('the patch', r'^    \+.*\n(?s:.*)\$ pinfold promote --yes'),
            ('the fix is promoted', r'^M  fairshare/split\.py$'),
            ('the hook is held back by name',
             r'^held back: \.git/hooks/post-commit: git hooks run on the host'),
            ('the fix is in the repository',
             r'yes  the fix is in the repository'),
            ('the hook stayed behind', r'yes  the hook stayed behind')):
        check(f'with --yes the screen shows that {sentence}',
              re.search(pattern, text, re.M), text[-3000:])
    text = on_a_terminal(where, b'y\n')
    check('on a terminal the example asks, and yes takes the fix over',
          b'the fix is in the repository' in text and b'\033[31mNO' not in text,
          text[-3000:])
    text = on_a_terminal(where, b'n\n')
    check('on a terminal no leaves the repository as it was',
          b'you said no: the repository is as it was' in text and
          b'\033[31mNO' not in text, text[-3000:])


def refused(where):
    done = subprocess.run(
        ['prlimit', '--nofile=64', f'{TOP}/examples/run', '--listener',
         where.replace(' ', ':')], check=False, env=environment(), cwd=TMP,
        text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, timeout=120 * PATIENCE)
    check('where pinfold refuses the example says why and ends',
          done.returncode == 1 and 'the limit of open files' in done.stdout and
          'Traceback' not in done.stdout and
          'disk filler' not in done.stdout, done.stdout)


def mounts():
    with open('/proc/self/mountinfo', encoding='utf-8') as f:
        return sorted(line.split(' ', 5)[4] for line in f)


def main():
    plant_canaries()
    listener = Listener()
    where = ' '.join([*name_and_address(), str(listener.port)])
    control(listener, where)

    listener.count = 0
    # The control run may have left nothing at home; from here on this counts.
    home, git = tree(HOME), hashlib.sha256(
        open(os.path.realpath('/usr/bin/git'), 'rb').read()).digest()
    before = mounts()
    began = time.monotonic()
    status, text = run_example(where)
    took = time.monotonic() - began
    check('the example ends with 0', status == 0, text[-6000:])
    check('the example takes less than a minute', took < 60 * PATIENCE,
          f'{took:.1f} s')
    look_at(text, where)
    check('what is not a terminal gets no colours', '\033' not in text)
    check('a terminal gets colours', b'\033[' in on_a_terminal(where))
    check('NO_COLOR is obeyed',
          b'\033' not in on_a_terminal(where, NO_COLOR='1'))

    taking_over(where)
    refused(where)

    time.sleep(0.2)
    check('nobody reached the listener', listener.count == 0, listener.count)
    check('the home is as it was', tree(HOME) == home, os.listdir(HOME))
    check('the program that was attacked is as it was', hashlib.sha256(
        open(os.path.realpath('/usr/bin/git'), 'rb').read()).digest() == git)
    check('nothing is left in the temporary directory',
          not glob.glob(f'{TMP}/pinfold-example.*') and
          not os.path.exists(f'{TMP}/planted'), os.listdir(TMP))
    check('no mount is left', mounts() == before)
    return failed


if __name__ == '__main__':
    sys.exit(main())

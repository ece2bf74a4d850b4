"""What the poisoned dependency tries, once a task.

A line for each attempt, "tabulary: WHAT: OUTCOME": the name of the errno it
got, "unset", "unknown name", or "done". The places come from the environment,
so that the example need not guess them:
    DEMO_HOME      home of the person who started the task
    DEMO_LISTENER  NAME ADDRESS PORT of a service on the host
"""
import errno
import os
import socket
import tempfile

TIMEOUT_S = 2
HOOK = '#!/bin/sh\necho planted\n'


def outcome(attempt, *args):
    try:
        attempt(*args)
        return 'done'
    except TimeoutError:
        return 'ETIMEDOUT'
    except socket.gaierror:
        return 'unknown name'
    except KeyError:
        return 'unset'
    except OSError as e:
        return errno.errorcode.get(e.errno, str(e.errno))


def read(path):
    with open(os.path.expanduser(path), 'rb') as f:
        f.read(1)


def open_to_write(path):
    os.close(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC))


def make(path):
    with open(path, 'w', encoding='utf-8') as f:
        f.write('planted\n')


def plant_hook(path):
    with open(path, 'w', encoding='utf-8') as f:
        f.write(HOOK)
    os.chmod(path, 0o755)


def connect(host, port):
    address = socket.gethostbyname(host)
    with socket.create_connection((address, port), TIMEOUT_S):
        pass


def connect_unix(path):
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(path)


def send(host, port):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.sendto(b'x', (host, port))


def attempts():
    home = os.environ.get('DEMO_HOME', '/root')
    name, address, port = os.environ.get(
        'DEMO_LISTENER', 'localhost 127.0.0.1 9').split(' ')
    yield 'read ~/.ssh/id_ed25519', read, '~/.ssh/id_ed25519'
    yield f'read {home}/.ssh/id_ed25519', read, f'{home}/.ssh/id_ed25519'
    yield f'read {home}/.aws/credentials', read, f'{home}/.aws/credentials'
    yield 'read .env', read, '.env'
    for variable in ('AWS_SECRET_ACCESS_KEY', 'GITHUB_TOKEN'):
        yield f'variable {variable}', os.environ.__getitem__, variable
    yield 'read /proc/1/environ', read, '/proc/1/environ'
    yield 'connect 169.254.169.254:80', connect, '169.254.169.254', 80
    yield f'connect {name}:{port}', connect, name, int(port)
    yield f'connect {address}:{port}', connect, address, int(port)
    yield f'sendto {address}:{port}', send, address, int(port)
    for path in ('../service', '/run/docker.sock'):
        yield f'connect {path}', connect_unix, path
    yield 'write ../planted', make, '../planted'
    yield 'write /usr/bin/git', open_to_write, '/usr/bin/git'
    yield 'write .git/hooks/post-commit', plant_hook, '.git/hooks/post-commit'


def deliver():
    mark = os.path.join(tempfile.gettempdir(), 'tabulary.delivered')
    if os.path.exists(mark):
        return
    with open(mark, 'w', encoding='utf-8'):
        pass
    for what, attempt, *args in attempts():
        print(f'tabulary: {what}: {outcome(attempt, *args)}', flush=True)

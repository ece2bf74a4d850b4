#!/usr/bin/python3
# limit: 300 s
"""The caller's tool chains and caches: what of them is inside, and what not."""
import json
import os
import platform
import shutil
import socket
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import box as b
from box import case, check, equal, within, main

SECRET = 'fL0ck-of-sheep'
# Laid out as the tools do it: where PATH leads, what a tool must have, files
# with tokens, and a variable. The program is called after the tool.
LAYOUTS = [
    ('cargo', '.cargo/bin', [], ['.cargo/credentials.toml',
                                 '.cargo/config.toml', '.cargo/credentials']),
    ('nvm', '.nvm/versions/node/v20.1.0/bin', ['.nvm/nvm.sh'],
     ['.nvm/versions/node/v20.1.0/etc/npmrc',
      '.nvm/versions/node/v18.0.0/etc/npmrc', '.nvm/.npmrc']),
    ('pyenv', '.pyenv/versions/3.9/bin', ['.pyenv/bin/pyenv'],
     ['.pyenv/versions/3.9/pip.conf', '.pyenv/versions/3.8/pip.conf']),
    ('conda', 'miniconda3/bin', ['miniconda3/conda-meta/history'],
     ['miniconda3/.condarc', 'miniconda3/pip.conf', '.condarc',
      'miniconda3/envs/a/conda-meta/state', 'miniconda3/pkgs/urls.txt']),
    ('go', 'go/bin', [], ['.config/go/env', '.netrc']),
    ('sdkman', '.sdkman/candidates/java/current/bin', [],
     ['.sdkman/candidates/maven/3.9/conf/settings.xml',
      '.sdkman/etc/config']),
    ('bun', '.bun/bin', [], ['.bunfig.toml', '.bun/install/global/.npmrc']),
    ('deno', '.deno/bin', [], ['.deno/.env']),
    ('pnpm', '.local/share/pnpm', [], ['.local/share/pnpm/global/5/.npmrc',
                                       '.config/pnpm/rc']),
    ('local', '.local/bin', [], ['.local/share/uv/credentials/pypi.json',
                                 '.local/share/keyrings/login.keyring',
                                 '.local/state/token']),
]


def put(path, text=SECRET, mode=0o644):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'w', encoding='utf-8') as f:
        f.write(text)
    os.chmod(path, mode)
    return path


def program(path, says=None):
    return put(path, f'#!/bin/sh\necho {says or path} "$@"\n', 0o755)


def lay_out(box):
    """All of LAYOUTS in the caller's home, and PATH to them."""
    path = []
    for name, folder, markers, secrets in LAYOUTS:
        program(f'{box.home}/{folder}/{name}-tool', name)
        path.append(f'{box.home}/{folder}')
        for marker in markers:
            put(f'{box.home}/{marker}', '')
        for secret in secrets:
            put(f'{box.home}/{secret}')
    box.env['PATH'] = ':'.join([*path, box.env['PATH']])
    return path


def has_upper_in_memory():
    """Since Linux 6.6 a tmpfs can be an overlay's upper layer."""
    major, minor = platform.release().split('.')[:2]
    return (int(major), int(minor.split('-')[0])) >= (6, 6)


def home_inside(box):
    return '/home/agent' if os.geteuid() == 0 else box.home


@case
def tool_chains_of_path_run_inside_by_name(box):
    folders = lay_out(box)
    names = [name for name, *_ in LAYOUTS]
    script = ' && '.join(f'{name}-tool x' for name in names)
    r = box.sh(f'{script}; echo "$PATH"').expect(0)
    lines = r.out.decode().splitlines()
    equal(lines[:-1], [f'{name} x' for name in names])
    inside = lines[-1].split(':')
    equal(inside[:len(folders)], folders)
    for system in ('/usr/bin', '/usr/sbin', '/bin'):
        check(system in inside, inside)
    box.run('--', 'cargo-tool', 'y').expect(0, out=b'cargo y\n')


@case
def no_file_of_credentials_comes_with_a_tool_chain(box):
    lay_out(box)
    box.sh(f'grep -rl {SECRET} {box.home} $HOME; '
           f'cat {box.home}/.cargo/credentials.toml').expect(1, out=b'')
    # A directory that the host's program reads shows that the search works.
    put(f'{box.home}/.cargo/bin/not-a-secret-file')
    box.sh(f'grep -rl {SECRET} {box.home}').expect(
        0, out=f'{box.home}/.cargo/bin/not-a-secret-file\n'.encode())


@case
def a_tool_chain_cannot_be_changed_from_inside(box):
    before = None
    for folder in lay_out(box):
        before = before or b.tree_state(box.home)
        tool = f'{folder}/{os.listdir(folder)[0]}'
        box.sh(f'echo x >>{tool} || rm -f {tool} || chmod 777 {tool} || '
               f'touch {folder}/new || mv {folder} /tmp/x').expect(1)
    equal(b.tree_state(box.home), before)


@case
def a_socket_of_the_host_in_a_tool_chain_is_dead(box):
    lay_out(box)
    path = f'{box.home}/.local/bin/s'
    os.mkfifo(f'{box.home}/.npm-fifo')
    os.makedirs(f'{box.home}/.npm/_cacache')
    os.rename(f'{box.home}/.npm-fifo', f'{box.home}/.npm/_cacache/fifo')
    with socket.socket(socket.AF_UNIX) as server:
        folder = os.open(os.path.dirname(path), os.O_PATH)
        server.bind(f'/proc/self/fd/{folder}/s')
        os.close(folder)
        os.chmod(path, 0o666)
        server.listen(1)
        r = box.run('--', 'python3', '-c', 'import os, socket, sys\n'
                    'os.chdir(sys.argv[1])\n'
                    'socket.socket(socket.AF_UNIX).connect("s")',
                    os.path.dirname(path))
        check(r.status == 1 and 'ConnectionRefused' in r.text(), r)
    # Nobody reads it outside, and a writer inside does not reach it.
    reader = os.open(f'{box.home}/.npm/_cacache/fifo',
                     os.O_RDONLY | os.O_NONBLOCK)
    box.sh('timeout 1 sh -c "echo x >~/.npm/_cacache/fifo"')
    equal(os.read(reader, 10), b'', 'the FIFO')
    os.close(reader)


@case
def toolchains_off_shows_none_of_it(box):
    folders = lay_out(box)
    put(f'{box.home}/.npm/_cacache/x')
    policy = put(f'{box.top}/p.yaml', 'version: 1\n'
                 'files: {toolchains: off}\n')
    r = box.run('--policy', policy, '--', 'cargo-tool')
    r.expect(127, text='command not found in the sandbox; on the host it is '
             f'{box.home}/.cargo/bin/cargo-tool')
    r = box.sh(f'ls -d {" ".join(folders)} {box.home}/.npm ~/.npm 2>/dev/null; '
               'echo "$PATH"', '--policy', policy).expect(0)
    equal(len(r.out.splitlines()), 1)
    check(box.home not in r.out.decode(), r)
    r = box.run('--policy', policy, '--json', '--', 'true').json()
    equal((r['tools'], r['carried']), ([], []))


@case
def what_is_written_to_a_cache_ends_with_the_task(box):
    lock = put(f'{box.home}/.npm/_cacache/index/x', 'old')
    put(f'{box.home}/.npm/_logs/secret')
    put(f'{box.home}/.m2/repository/a.jar', 'jar')
    put(f'{box.home}/.m2/settings.xml')
    put(f'{box.home}/.cargo/registry/index/y', 'crate')
    put(f'{box.home}/go/pkg/mod/cache/vcs/z/config')
    put(f'{box.home}/go/pkg/mod/m@v1/m.go', 'package m')
    before = b.tree_state(box.home)
    r = box.sh('cat ~/.npm/_cacache/index/x ~/.m2/repository/a.jar '
               '~/.cargo/registry/index/y ~/go/pkg/mod/m@v1/m.go && '
               '! test -e ~/.m2/settings.xml && ! test -e ~/.npm/_logs/secret'
               ' && ! test -e ~/go/pkg/mod/cache/vcs', '--json').expect(0)
    equal(r.out, b'oldjarcratepackage m')
    equal(len(r.json()['carried']), 4)
    how = [e['mechanism'] for e in r.json()['enforced']
           if e['what'] == 'carried in']
    if has_upper_in_memory():
        r = box.sh('echo new >~/.npm/_cacache/index/x && '
                   'mkdir ~/.npm/_cacache/tmp && rm -r ~/.m2/repository/* && '
                   'rmdir ~/.m2/repository; cat ~/.npm/_cacache/index/x')
        r.expect(0, out=b'new\n')
        within(how[0], 'in memory')
    else:
        box.sh('echo new >~/.npm/_cacache/index/x').expect(2)
        within(how[0], 'read-only')
    equal(b.tree_state(box.home), before)
    with open(lock, encoding='ascii') as f:
        equal(f.read(), 'old')


@case
def where_a_tmpfs_is_no_upper_layer_caches_are_read_only_and_it_is_said(box):
    strace = shutil.which('strace')
    if not strace:
        raise b.Skip('needs strace')
    put(f'{box.home}/.npm/_cacache/x', 'old')
    r = box.finish(box.spawn(
        [strace, '-f', '-qq', '-o', '/dev/null', '-e', 'trace=fsetxattr', '-e',
         'inject=fsetxattr:error=EOPNOTSUPP', b.PINFOLD, 'run', '--json', '--',
         'sh', '-c', 'cat ~/.npm/_cacache/x; echo new >~/.npm/_cacache/x || '
         'echo; touch ~/.npm/y']))
    equal((r.status, r.out), (0, b'old\n'), r)
    within(str(r.json()['enforced']), 'read-only overlay: before Linux 6.6')


@case
def a_started_sandbox_keeps_what_is_written_to_a_cache(box):
    if not has_upper_in_memory():
        raise b.Skip('caches are read-only before Linux 6.6')
    put(f'{box.home}/.npm/_cacache/x', 'old')
    task = box.start()
    box.exec(task, '--', 'sh', '-c', 'echo new >~/.npm/_cacache/x').expect(0)
    box.exec(task, '--', 'sh', '-c', 'cat ~/.npm/_cacache/x').expect(
        0, out=b'new\n')
    box.kill(task).expect(0)
    box.gone(task)


@case
def an_exec_finds_the_tools_that_the_task_was_started_with(box):
    lay_out(box)
    task = box.start()
    box.env['PATH'] = '/usr/bin:/bin'
    box.exec(task, '--', 'nvm-tool', '1').expect(0, out=b'nvm 1\n')
    box.kill(task)


@case
def variables_lead_to_tool_chains_elsewhere(box):
    elsewhere = f'{box.top}/elsewhere'
    program(f'{elsewhere}/jdk/bin/java', 'java')
    program(f'{elsewhere}/go/bin/go', 'go')
    put(f'{elsewhere}/rustup/toolchains/stable/rustc', 'rustc')
    put(f'{elsewhere}/cargo/registry/x', 'crate')
    put(f'{elsewhere}/cargo/credentials.toml')
    program(f'{elsewhere}/cargo/bin/cargo', 'cargo')
    box.env |= {'JAVA_HOME': f'{elsewhere}/jdk', 'GOROOT': f'{elsewhere}/go',
                'RUSTUP_HOME': f'{elsewhere}/rustup',
                'CARGO_HOME': f'{elsewhere}/cargo'}
    r = box.sh('$JAVA_HOME/bin/java && $GOROOT/bin/go && '
               'cat $RUSTUP_HOME/toolchains/stable/rustc && '
               'cat $CARGO_HOME/registry/x && touch $CARGO_HOME/y && '
               f'{elsewhere}/cargo/bin/cargo && '
               f'! test -e {elsewhere}/cargo/credentials.toml')
    r.expect(0, out=b'java\ngo\nrustccratecargo\n')
    # It leads to what tools of root's would be, too, but not to a home.
    box.env |= {'JAVA_HOME': box.home, 'GOROOT': '/', 'PYENV_ROOT': '/etc'}
    put(f'{box.home}/bin/java')
    put(f'{box.home}/.ssh/id_ed25519')
    r = box.sh(f'ls -A {box.home}; env', '--json').expect(0)
    equal([p for p in r.json()['tools'] if not p.startswith(elsewhere)], [])
    check('JAVA_HOME' not in r.out.decode(), r)
    check('.ssh' not in r.out.decode(), r)


@case
def links_out_of_a_tool_chain_are_not_followed(box):
    secret = put(f'{box.home}/.ssh/id_ed25519')
    put(f'{box.home}/.aws/credentials')
    os.makedirs(f'{box.home}/.local/bin')
    os.symlink(secret, f'{box.home}/.local/bin/key')
    os.symlink(f'{box.home}/.ssh', f'{box.home}/.local/lib')
    os.symlink(f'{box.home}/.aws', f'{box.home}/.nvm')
    put(f'{box.home}/.aws/nvm.sh', '')
    os.symlink(box.home, f'{box.home}/.pyenv')
    program(f'{box.home}/bin/pyenv')
    os.symlink('/', f'{box.home}/.deno')
    box.env['PATH'] = ':'.join(
        f'{box.home}/{p}' for p in ('.local/bin', '.nvm/bin', '.pyenv/bin',
                                    '.deno/bin')) + ':/usr/bin:/bin'
    r = box.sh(f'grep -rl {SECRET} {box.home} $HOME; '
               f'cat {box.home}/.local/bin/key; cat {box.home}/.nvm/credentials;'
               f'ls {box.home}/.pyenv/', '--json')
    check(r.status != 0 and r.out == b'', r)
    equal(r.json()['tools'], [f'{box.home}/.local/bin'])


@case
def a_tool_root_behind_a_link_is_shown_where_it_is(box):
    real = f'{box.top}/data/cargo'
    program(f'{real}/bin/cargo-tool', 'cargo')
    os.symlink(real, f'{box.home}/.cargo')
    box.env['PATH'] = f'{box.home}/.cargo/bin:/usr/bin:/bin'
    r = box.run('--json', '--', 'cargo-tool').expect(0)
    equal(r.out, b'cargo\n')
    equal(r.json()['tools'], [f'{real}/bin'])
    within(r.json()['tool_env'], f'PATH={real}/bin:/usr/bin:/bin:'
           '/usr/local/sbin:/usr/local/bin:/usr/sbin:/sbin')


@case
def a_command_that_is_not_found_names_the_grant_that_shows_it(box):
    program(f'{box.top}/mine/bin/my-tool', 'mine')
    program(f'{box.home}/bin/other-tool', 'other')
    os.makedirs(f'{box.home}/.local/bin')
    os.symlink(f'{box.top}/mine/bin/my-tool', f'{box.home}/.local/bin/linked')
    put(f'{box.source}/script', f'#!{box.top}/mine/bin/my-tool\n', 0o755)
    box.env['PATH'] += f':{box.top}/mine/bin:{box.home}/bin' \
                       f':{box.home}/.local/bin'
    grant = f'--read {box.top}/mine'
    for words in (['my-tool'], ['linked'], ['./script'],
                  [f'{box.source}/script'], [f'{box.top}/mine/bin/my-tool']):
        box.run('--', *words).expect(127, text=f'{grant} would show it')
        box.run(*grant.split(), '--', *words).expect(0)
    r = box.run('--', 'other-tool').expect(
        127, text=f'--read {box.home}/bin would show it')
    box.run('--read', f'{box.home}/bin', '--', 'other-tool').expect(0)
    r = box.run('--', 'no-such-command-at-all').expect(127)
    equal(r.text(), 'pinfold: cannot run "no-such-command-at-all": command '
          'not found in the sandbox\n')
    # A directory of the host is no command of this name.
    os.mkdir(f'{box.home}/bin/folder')
    for word in ('', 'folder', f'{box.home}/bin/folder'):
        r = box.run('--', word).expect(127)
        equal(r.text(), f'pinfold: cannot run "{word}": command not found in '
              'the sandbox\n')
    task = box.start()
    box.exec(task, '--', 'my-tool').expect(127, text=f'{grant} would show it')
    box.kill(task)


@case
def a_denial_beats_a_tool_chain(box):
    lay_out(box)
    put(f'{box.home}/.npm/_cacache/private/x')
    policy = put(f'{box.top}/p.yaml', 'version: 1\nfiles:\n  deny:\n'
                 f'    - {box.home}/.cargo\n'
                 f'    - {box.home}/.nvm/versions/node/v20.1.0/bin/nvm-tool\n'
                 f'    - {box.home}/.npm/_cacache/private\n')
    for name in ('cargo', 'nvm'):
        box.run('--policy', policy, '--', f'{name}-tool').expect(127)
    box.sh('pyenv-tool && test -d ~/.npm/_cacache && '
           '! test -e ~/.npm/_cacache/private', '--policy', policy).expect(0)


@case
def what_is_granted_is_shown_and_recorded(box):
    lay_out(box)
    put(f'{box.home}/.npm/_cacache/x')
    tools = [f'{box.home}/.cargo/bin', f'{box.home}/.nvm',
             f'{box.home}/.pyenv', f'{box.home}/miniconda3',
             f'{box.home}/go/bin', f'{box.home}/.sdkman/candidates',
             f'{box.home}/.bun/bin', f'{box.home}/.bun/install/global',
             f'{box.home}/.deno/bin', f'{box.home}/.local/share/pnpm',
             f'{box.home}/.local/bin']
    r = box.run('--json', '--', 'true').expect(0)
    record = box.record(r.json()['id']) if os.path.exists(
        f'{box.folder(r.json()["id"])}/task.json') else r.json()
    equal(sorted(record['tools']), sorted(tools))
    equal(record['carried'], [f'{box.home}/.npm/_cacache'])
    check(record['tool_env'][-1].startswith(f'PATH={box.home}/.cargo/bin:'),
          record['tool_env'])
    r = box.pinfold('policy', 'show', '--json').expect(0)
    rows = {row['object']: row for row in json.loads(r.out)['rows']}
    for path in tools:
        equal(rows[path]['rule'], 'files.toolchains: auto', path)
    cache = f'{home_inside(box)}/.npm/_cacache'
    within(rows[cache]['permits'], 'ends with the task')
    text = box.pinfold('policy', 'show').expect(0).out.decode()
    within(text, f'{box.home}/.nvm: read, execute: tool chain (nvm)')


@case
def a_tool_of_the_source_and_granted_directories_stay_in_path(box):
    program(f'{box.source}/node_modules/.bin/lint', 'lint')
    program(f'{box.top}/granted/x-tool', 'granted')
    box.env['PATH'] = (f'{box.source}/node_modules/.bin:{box.top}/granted:'
                       f'relative:.::{box.top}/gone:/usr/bin:/bin/')
    r = box.sh('lint; x-tool; echo $PATH', '--read', f'{box.top}/granted')
    lines = r.expect(0).out.decode().splitlines()
    equal(lines[:2], ['lint', 'granted'])
    equal(lines[2].split(':')[:4], [f'{box.source}/node_modules/.bin',
                                    f'{box.top}/granted', '/usr/bin', '/bin'])


@case
def a_virtual_environment_elsewhere_is_there(box):
    venv = f'{box.home}/.venvs/work'
    put(f'{venv}/pyvenv.cfg', '')
    os.makedirs(f'{venv}/bin')
    os.symlink('/usr/bin/python3', f'{venv}/bin/python')
    box.env |= {'VIRTUAL_ENV': venv, 'PATH': f'{venv}/bin:/usr/bin:/bin'}
    r = box.run('--', 'python', '-c', 'import os, sys; print(sys.executable, '
                'os.environ["VIRTUAL_ENV"])').expect(0)
    equal(r.out.decode().split(), [f'{venv}/bin/python', venv])


@case
def a_tool_chain_of_opt_is_there_without_its_settings(box):
    if not b.ROOT:
        raise b.Skip('/opt is root\'s')
    top = f'/opt/pinfold-test-{os.getpid()}'
    try:
        program(f'{top}/bin/opt-tool', 'opt')
        put(f'{top}/etc/npmrc')
        box.env['PATH'] += f':{top}/bin'
        r = box.sh(f'opt-tool; ls /opt; ! test -e {top}/etc/npmrc').expect(0)
        equal(r.out.decode().split(), ['opt', os.path.basename(top)])
    finally:
        shutil.rmtree(top)


if __name__ == '__main__':
    sys.exit(main())

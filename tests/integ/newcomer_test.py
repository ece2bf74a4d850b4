#!/usr/bin/python3
# limit: 300 s
"""What somebody meets who uses pinfold for the first time: hints, wording,
progress, what is passed on without being asked for."""
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time

from box import (PINFOLD, SITUATION, Skip, case, check, equal, long_case, main,
                 patient, processes_with, wait_for, within)

INSIDE = '/usr/bin/python3'


# ---- names ----

LOOK_UP = '''
import socket
import subprocess
import time
try:
    socket.getaddrinfo("example.com", 80)
except socket.gaierror as e:
    print(e.errno)
'''


@case
def a_look_up_of_a_name_is_recorded_and_said_at_the_end(box):
    r = box.run('--json', '--', INSIDE, '-c', LOOK_UP).expect(0)
    equal(int(r.out), socket.EAI_NONAME)
    seen = r.json()['refusals']
    equal([(f['action'], f['object'], f['rule'], f['claimed']) for f in seen],
          [('resolve', 'names', 'network: default deny', True)])
    equal(seen[0]['error'], 101)
    within(r.text(), 'look-up')
    within(r.text(), 'network: default deny')
    shown = box.pinfold('ps', r.json()['id']).expect(0).out.decode()
    within(shown, ' x resolve names, network: default deny (as claimed)')


@case
def look_ups_and_connects_are_told_apart(box):
    r = box.run('--', INSIDE, '-c', LOOK_UP +
                'socket.socket().connect_ex(("192.0.2.1", 443))').expect(0)
    within(r.text(), 'look-ups of names among them')
    r = box.run('--', INSIDE, '-c', 'import socket\n'
                'socket.socket().connect_ex(("192.0.2.1", 443))').expect(0)
    within(r.text(), '1 network attempt refused (network')


@case
def names_of_the_sandbox_itself_are_found_and_no_refusal(box):
    r = box.run('--json', '--', INSIDE, '-c', '''
import socket
import subprocess
import time
print(socket.gethostbyname("localhost"),
      socket.gethostbyname(socket.gethostname()),
      bool(socket.getfqdn()))
''').expect(0, out=b'127.0.0.1 127.0.0.1 True\n')
    equal(r.json()['refusals'], [])
    check('refused' not in r.text().split('\n{')[0], r)


@case
def curl_and_node_fail_at_once_and_it_is_said(box):
    tried = 0
    for program, words in (
            ('curl', ['-sS', 'http://example.com']),
            ('node', ['-e', 'require("dns").resolve4("example.com", e => '
                            'process.exit(e ? 6 : 0))'])):
        if not shutil.which(program, path='/usr/bin'):
            continue
        tried += 1
        r = box.run('--', f'/usr/bin/{program}', *words).expect(6)
        within(r.text(), 'look-up', program)
        check(r.seconds < patient(10), r.seconds)
    if not tried:
        raise Skip('neither curl nor node is here')


@case
def a_look_up_in_an_exec_is_said_at_its_end(box):
    task = box.start()
    r = box.exec(task, '--json', '--', INSIDE, '-c', LOOK_UP).expect(0)
    within(r.text(), 'look-up')
    check(r.json()['refusals'] > 0, r)
    r = box.exec(task, '--json', '--', 'true').expect(0)
    equal(r.json()['refusals'], 0)
    check('refused (' not in r.text(), r)
    box.kill(task)


# ---- who commits are by ----

COMMIT = 'git init -q . 2>/dev/null; echo x >>f; git add f && ' \
    'git commit -qm one && git log -1 --format="%an|%ae|%cn|%ce"'


# A user's source lies in its home.
AT_HOME = '{ ls -A ~ | grep -v "^src$" || true; }'


def git_config(box, text, name='.gitconfig'):
    path = f'{box.home}/{name}'
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'w', encoding='utf-8') as f:
        f.write(text)


@case
def a_commit_inside_is_by_the_caller_and_no_more_is_passed(box):
    git_config(box, '[user]\n\tname = Ada "L"\n\temail = ada@old.example\n'
               '\tsigningkey = SECRETKEY\n[http "https://x"]\n'
               '\textraheader = "Authorization: SECRETTOKEN"\n'
               '[alias]\n\tname = !touch PWNED\n')
    git_config(box, '[user]\nemail = other@x\nname = Other\n',
               '.config/git/config')
    wanted = b'Ada L|ada@old.example|Ada L|ada@old.example\n'
    box.sh(COMMIT).expect(0, out=wanted)
    task = box.start()
    box.exec(task, '--', 'sh', '-c', COMMIT).expect(0, out=wanted)
    box.exec(task, '--', 'sh', '-c', 'git config --global user.name Own; ' +
             COMMIT).expect(0, out=wanted.replace(b'Ada L', b'Own'))
    box.kill(task)
    r = box.sh(f'cat ~/.gitconfig; env; {AT_HOME}').expect(0)
    check(b'SECRET' not in r.out and b'PWNED' not in r.out, r)
    equal(r.out.split()[-1], b'.gitconfig')


@case
def a_repositorys_own_author_comes_first_and_gives_nothing_to_others(box):
    git_config(box, '[user]\nname = Ada\nemail = ada@x\n')
    own = 'git init -q . 2>/dev/null; git config user.name Work; '
    box.sh(own + COMMIT).expect(0, out=b'Work|ada@x|Work|ada@x\n')
    os.mkdir(f'{box.source}/.git')
    box.write('.git/config', '[user]\nname = Hostile\nemail = h@x\n')
    r = box.sh('cd /tmp && git config user.name; cat ~/.gitconfig')
    check(b'Hostile' not in r.out, r)


@case
def without_an_author_or_with_a_policy_against_it_there_is_none(box):
    # Others than users get what git needs to know the files of another owner.
    box.sh(AT_HOME).expect(0, out=b'' if SITUATION == 'user' else b'.gitconfig\n')
    git_config(box, '[user]\nname = Ada\nemail = ada@x\n')
    path = f'{box.top}/p.yaml'
    with open(path, 'w', encoding='ascii') as f:
        f.write('version: 1\nenv: {git_author: false}\n')
    r = box.sh(f'{AT_HOME}; {COMMIT}', '--policy', path)
    check(r.status == 128 and b'Ada' not in r.out, r)
    box.sh(COMMIT, '--env', 'GIT_AUTHOR_NAME=Bot').expect(
        0, out=b'Bot|ada@x|Ada|ada@x\n')
    within(box.pinfold('policy', 'show', path).expect(0).out.decode(),
           'env.git_author: false')


# ---- diff ----

@case
def diff_lists_paths_in_order_whatever_order_they_were_made_in(box):
    for name in ('zz', 'mid/old', 'b-side'):
        box.write(name, 'old')
    other = f'{box.home}/other'
    os.mkdir(other)
    r = box.sh(f'for i in 9 1 5 3 7 10; do echo $i >f$i; mkdir d$i; '
               f'echo $i >d$i/g$i; done; rm zz; echo x >>mid/old; echo >B; '
               f'echo y >b-side; mkdir b; echo >b/z; echo >b/a; '
               f'echo >{other}/n2; echo >{other}/n1', '--write', other,
               '--json').expect(0)
    task = r.json()['id']
    found = [c['path'] for c in box.changes(task)['changes']]
    own = [p for p in found if not p.startswith('/')]
    check(len(own) == 25, own)
    equal(found, sorted(own) + [f'{other}/n1', f'{other}/n2'])
    for words in ((), ('--stat',)):
        lines = box.pinfold('diff', task, *words).expect(0).out.decode()
        listed = [line.split()[-1].rstrip('/')
                  for line in lines.splitlines()[:len(found)]]
        equal(listed, found, words)


@long_case
def diff_of_40000_changes_is_in_order_and_takes_little_memory(box):
    r = box.run('--json', '--', INSIDE, '-c', """
import os
for d in range(80, 0, -1):
    os.mkdir(f"d{d}-{'x' * 100}")
    for f in range(500):
        os.mknod(f"d{d}-{'x' * 100}/{'y' * 100}{f * 7919 % 500}")
""", timeout=300).expect(0)
    task = r.json()['id']
    process = box.spawn([PINFOLD, 'diff', task])
    out = process.stdout.read()
    _, _, usage = os.wait4(process.pid, 0)
    process.returncode = 0
    paths = [line[3:].rstrip('/') for line in out.decode().splitlines()]
    equal(len(paths), 40080)
    check(paths == sorted(paths), 'not in order')
    check(usage.ru_maxrss < 32 << 10, f'{usage.ru_maxrss} KiB')
    equal([n for n in os.listdir(box.folder(task)) if 'sorted' in n], [])
    box.pinfold('discard', '--yes', task).expect(0)
    return f'{usage.ru_maxrss >> 10} MiB'


# ---- one wording for what ran out of time ----

@case
def run_and_exec_say_in_the_same_words_that_time_ran_out(box):
    r = box.run('--timeout', '300ms', '--json', '--', 'sleep', '60').expect(124)
    within(r.text(), 'pinfold: limit: wall: the task was stopped after 300ms\n')
    equal((r.json()['reason'], r.json()['limit']), ('limit', 'wall'))
    task = box.start()
    r = box.exec(task, '--timeout', '300ms', '--json', '--', 'sleep', '60')
    r.expect(124)
    within(r.text(),
           'pinfold: limit: wall: the command was stopped after 300ms\n')
    equal((r.json()['reason'], r.json()['limit']), ('limit', 'wall'))
    box.kill(task)
    task = box.start('--limit', 'wall=2s')
    r = box.exec(task, '--json', '--', 'sleep', '60').expect(124)
    within(r.text(), 'pinfold: limit: wall: the task was stopped after 2s\n')
    equal((r.json()['reason'], r.json()['limit']), ('limit', 'wall'))


# ---- doctor ----

def checks(text):
    return {c['name']: c for c in json.loads(text)['checks']}


@case
def doctor_counts_nothing_that_nothing_uses_as_missing(box):
    r = box.pinfold('doctor', '--json').expect(0)
    for name in ('nft', 'kvm'):
        found = checks(r.out)[name]
        check(found['health'] in ('ok', 'unused'), found)
        check('fix' not in found and 'costs' not in found, found)


@case
def in_a_chroot_doctor_and_run_say_that_it_is_one(box):
    """As root of a namespace that may chroot; the root is a plain directory,
    then a mount of its own."""
    top = f'{box.top}/root'
    for name in ('usr', 'proc', 'dev', 'pinfold', 'etc', 'tmp', 'src'):
        os.makedirs(f'{top}/{name}')
    for name in ('bin', 'lib', 'lib64'):
        os.symlink(f'usr/{name}', f'{top}/{name}')
    for name in ('', '-keeper', '-init', '-watch'):
        shutil.copy(PINFOLD + name, f'{top}/pinfold')
    for own in ('true', f'mount --bind {top} {top}'):
        script = f'''{own}
mount --rbind /usr {top}/usr
mount --rbind /proc {top}/proc
mount --rbind /dev {top}/dev
cd {top}/src
export HOME=/tmp XDG_STATE_HOME=/tmp XDG_RUNTIME_DIR=/tmp
/usr/sbin/chroot {top} /pinfold/pinfold doctor --json && exit 9
/usr/sbin/chroot {top} /pinfold/pinfold run --source /src -- /bin/true && exit 9
exit 0'''
        r = box.finish(box.spawn(['unshare', '--user', '--map-root-user',
                                  '--mount', 'sh', '-c', script]))
        r.expect(0, text='chroot')
        within(r.text(), 'systemd-nspawn')
        found = checks(r.out)
        equal(found['user namespaces']['health'], 'missing')
        within(found['user namespaces']['what'], 'chroot')
        within(found['user namespaces']['fix'], 'systemd-nspawn')
        for name in ('proc', 'overlay'):
            equal(found[name]['health'], 'unknown', name)


# ---- what policy check accepts runs ----

def policies(box):
    """One value of each kind for each field, at its ends where it has any."""
    for field, values in (
            ('cpu_time', '1s 365d none'), ('cpus', '0.01 4096 none'),
            ('disk', '1MiB 1PiB none'), ('idle', '1s 365d none'),
            ('inodes', '64 1000000000 none'), ('memory', '64MiB 1PiB none half'),
            ('open_files', '16 1048576'), ('output', '1 none'),
            ('processes', '2 4194304 none'), ('wall', '10s 365d none')):
        for value in values.split():
            yield f'limits: {{{field}: {value}}}'
    for data in ('public', 'internal', 'confidential', 'secret'):
        for impact in ('low', 'high'):
            yield f'classify: {{data: {data}, impact: {impact}}}'
    for tier in ('auto', 'container', 'gvisor', 'microvm', 'wasm'):
        yield f'tier: {tier}'
    for mode in ('auto', 'overlay', 'copy', 'direct'):
        yield f'files: {{workspace: {mode}}}'
    yield from ('nesting: true', 'identity: single', 'image: host',
                'extends: offline', 'seal: [limits, files.read]')
    for what in ('read', 'write'):
        for path in ('dir', 'file', 'missing', 'fifo', 'link', 'dir/' + 'n' * 255,
                     'dir/' + 'n' * 256):
            yield f'files: {{{what}: ["{box.top}/{path}"]}}'
        for path in ('/usr', '/usr/bin', '/bin', '/etc', '/etc/hosts', '/proc',
                     '/dev/shm', '/var/tmp', '/var/tmp/x', '/var/run', '/tmp'):
            yield f'files: {{{what}: ["{path}"]}}'
    for path in ('.env', 'no/such/path', '.', '..', 'a/../b', '/', '/usr/x',
                 '/opt/x', 'n' * 255, 'n' * 256, '*.pem', 'a b', box.home):
        yield f'files: {{deny: ["{path}"]}}'
    yield from ('files: {deny: [sub, sub/x, sub/x/y, sub]}',
                'files: {deny: [sub/x, sub]}',
                f'files: {{deny: [.env, "{box.source}/.env"]}}',
                f'files: {{read: ["{box.source}"]}}',
                f'files: {{read: ["{box.top}/dir"], write: ["{box.top}/dir"]}}')
    for name in ('PATH', 'HOME', 'TERM', 'LD_PRELOAD', 'A-B', '1A', ''):
        yield f'env: {{pass: ["{name}"]}}'
        yield f'env: {{set: {{"{name}": "/usr/bin"}}}}'
    for size in (1000, 100000, 140000):
        yield f'env: {{set: {{V: "{"v" * size}"}}}}'


# By the caller's tree, and said only when a source is known.
OF_THE_SOURCE = ('denies the source', 'cannot be hidden', 'belongs to root')


@long_case
def what_policy_check_accepts_starts_and_what_it_refuses_does_not(box):
    os.makedirs(f'{box.top}/dir')
    os.mkfifo(f'{box.top}/fifo')
    os.symlink('dir', f'{box.top}/link')
    with open(f'{box.top}/file', 'w', encoding='ascii') as f:
        f.write('x')
    path, accepted, refused = f'{box.top}/p.yaml', 0, 0
    for text in policies(box):
        with open(path, 'w', encoding='utf-8') as f:
            f.write(f'version: 1\n{text}\n')
        check_ = box.pinfold('policy', 'check', path)
        run = box.run('--policy', path, '--', '/bin/true')
        what = f'{text[:90]}: check {check_.status}, run {run}'
        check(check_.status in (0, 1), what)
        if check_.status == 1 or 'would be refused here' in check_.text():
            refused += 1
            equal(run.status, 125, what)
        elif not any(w in run.text() for w in OF_THE_SOURCE):
            accepted += 1
            check(run.status == 0, what)
    check(accepted > 40 and refused > 40, (accepted, refused))
    return f'{accepted} accepted, {refused} refused'


@case
def what_this_version_cannot_run_is_a_fault_for_policy_check(box):
    path = f'{box.top}/p.yaml'
    for text in ('tier: microvm', 'identity: range\nfiles: {workspace: direct}',
                 'classify: {data: secret}'):
        with open(path, 'w', encoding='ascii') as f:
            f.write(f'version: 1\n{text}\n')
        r = box.pinfold('policy', 'check', path).expect(1)
        check(re.search(r':[23]:\d+: ', r.text()), r)
        within(r.text(), 'not supported by this version')
        report = json.loads(box.pinfold('policy', 'check', '--json',
                                        path).expect(1).out)
        equal((report['valid'], len(report['problems'])), (False, 1))
        box.run('--policy', path, '--', 'true').expect(
            125, text='not supported by this version')


@case
def a_denied_path_below_a_denied_one_is_hidden_with_it(box):
    box.write('sub/x/y', 'secret')
    box.write('sub2/y', 'open')
    path = f'{box.top}/p.yaml'
    for order in ('sub/x/y, sub, sub/x', 'sub, sub/x/y'):
        with open(path, 'w', encoding='ascii') as f:
            f.write(f'version: 1\nfiles: {{deny: [{order}]}}\n')
        for mode in ('overlay', 'copy'):
            box.sh('cat sub2/y; ls sub', '--policy', path, '--workspace',
                   mode).expect(2, out=b'open')


# ---- long copies ----

def fill(box, files, size, folders=20):
    for d in range(folders):
        os.mkdir(f'{box.source}/d{d}')
    for n in range(files):
        with open(f'{box.source}/d{n % folders}/f{n}', 'wb') as f:
            f.write(b'x' * size)


@case
def a_long_copy_shows_its_progress_on_a_terminal_alone(box):
    with open(f'{box.source}/sparse', 'wb') as f:
        for n in range(400):  # data, so that it takes more than a second
            f.write(os.urandom(1 << 20))
    master, slave = os.openpty()
    process = box.spawn([PINFOLD, 'run', '--workspace', 'copy', '-T', '--',
                         'true'], stderr=slave)
    os.close(slave)
    said = b''
    while True:
        try:
            block = os.read(master, 4096)
        except OSError:
            break
        if not block:
            break
        said += block
    os.close(master)
    equal(process.wait(60), 0)
    quick = not said
    if said:
        within(said, b'pinfold: copying the source: ')
        within(said, b' of 1 files, ')
        check(said.endswith(b'\r\x1b[K'), said[-50:])
    r = box.run('--workspace', 'copy', '--', 'true').expect(0)
    equal(r.err, b'')
    if quick:
        raise Skip('400 MB are copied within a second here')


@case
def a_copy_is_interrupted_at_once_and_leaves_nothing(box):
    fill(box, 3000, 30000)
    before = set(os.listdir(f'{box.state}/tasks')) \
        if os.path.isdir(f'{box.state}/tasks') else set()
    for ms in (30, 80, 150):
        process = box.spawn([PINFOLD, 'run', '--workspace', 'copy', '--',
                             'sleep', '60'])
        time.sleep(ms / 1000)
        process.send_signal(signal.SIGINT)
        r = box.finish(process, timeout=30)
        check(r.status in (130, -2), r)
        equal(r.err, b'')
    if SITUATION == 'user':
        left = set(os.listdir(f'{box.state}/tasks')) - before
        for task in left:
            equal(box.files_left_of(task), [], task)


@case
def a_copy_beyond_the_limit_of_disk_is_refused_before_it_is_made(box):
    fill(box, 500, 10000)
    r = box.run('--workspace', 'copy', '--limit', 'disk=2MiB', '--', 'true')
    r.expect(125, text='too large to be copied')
    within(r.text(), 'limits.disk permits')
    r = box.run('--workspace', 'copy', '--limit', 'inodes=300', '--', 'true')
    r.expect(125, text='it has 520 files, and limits.inodes is 300')
    box.run('--workspace', 'copy', '--limit', 'disk=64MiB', '--limit',
            'inodes=2000', '--', 'true').expect(0)


@case
def a_copy_larger_than_the_disk_is_refused_before_it_fills_it(box):
    fill(box, 100, 200000)
    script = f'mkdir -p {box.top}/small && mount -t tmpfs -o size=8m tmpfs ' \
        f'{box.top}/small && exec "$@"'
    if SITUATION != 'user':
        raise Skip('the state directory is not this test\'s own')
    r = box.finish(box.spawn(
        ['unshare', '--user', '--map-root-user', '--mount', 'sh', '-c', script,
         'sh', PINFOLD, 'run', '--workspace', 'copy', '--', 'true'],
        env={**box.env, 'XDG_STATE_HOME': f'{box.top}/small'}))
    r.expect(125, text='too large to be copied')
    within(r.text(), 'left on the disk of the state directory')


# ---- sandboxes that stay ----

@case
def exec_takes_its_home_from_the_task_and_not_from_its_caller(box):
    task = box.start()
    elsewhere = f'{box.top}/elsewhere'
    os.mkdir(elsewhere)
    show = ['--', 'sh', '-c', 'echo $HOME; cd; pwd']
    here = box.exec(task, *show).expect(0).out
    for home in (elsewhere, '/nonexistent', ''):
        r = box.exec(task, *show, env={**box.env, 'HOME': home,
                                       'XDG_STATE_HOME': f'{box.top}/state'})
        r.expect(0, out=here)
    r = box.run(*show).expect(0, out=here)
    box.kill(task)


@case
def the_65th_client_is_told_that_there_are_64_and_stop_still_works(box):
    task = box.start()
    clients = [box.spawn([PINFOLD, 'exec', task, '--', 'sleep', '3301'],
                         stdout=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL) for _ in range(64)]
    wait_for(lambda: len(processes_with('sleep\x003301')) >= 128, 60,
             '64 commands')
    r = box.exec(task, '--', 'true').expect(125)
    within(r.text(), f'{task} has 64 commands at once already')
    equal(r.err.count(b'\n'), 1)
    address = next(path for path in (f'{box.sockets}/{task}',
                                     f'/run/pinfold/{task}')
                   if os.path.lexists(path))
    idle = []
    for _ in range(70):  # connections that take the spare places too
        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        s.connect(address)
        idle.append(s)
    r = box.exec(task, '--', 'true').expect(125)
    within(r.text(), f'{task} has 64 commands at once already')
    within(box.pinfold('stop', task).expect(125).text(), 'too many clients')
    for s in idle:
        s.close()
    wait_for(lambda: box.exec(task, '--', 'true').status == 125 and
             'at once' in box.exec(task, '--', 'true').text(), 20, 'room')
    clients[0].kill()
    clients[0].wait(20)
    wait_for(lambda: box.exec(task, '--', 'true').status == 0, 20,
             'a free place')
    box.pinfold('stop', '--grace', '100ms', task).expect(0)
    for client in clients[1:]:
        client.wait(20)


# ---- ps and rm ----

PS_KEYS = {'argv', 'ended_us', 'exit_status', 'held_bytes', 'held_complete',
           'held_inodes', 'id', 'labels', 'limit', 'name', 'reason', 'signal',
           'source', 'started_us', 'state', 'workspace'}


def ps(box, *words):
    r = box.pinfold('ps', '--json', *words).expect(0)
    return {t['id']: t for t in json.loads(r.out)['tasks']}


@case
def ps_in_json_has_every_field_and_null_where_there_is_no_value(box):
    mine = f'test={box.top}'
    task = box.start('--label', mine, '--label', 'name=pet')
    entry = ps(box)[task]
    equal(set(entry), PS_KEYS)
    equal((entry['state'], entry['ended_us'], entry['exit_status'],
           entry['reason'], entry['signal'], entry['limit'], entry['name']),
          ('running', None, None, None, None, None, 'pet'))
    equal(sorted(entry['labels']), ['name=pet', mine])
    detailed = ps(box, task)[task]
    equal(set(detailed), PS_KEYS | {'processes', 'record'})
    equal(detailed['record']['schema'], 'pinfold-task-1')
    box.kill(task)
    dead = box.sh('kill -9 $$', '--source', 'none', '--json').json()['id']
    entry = ps(box, '-a')[dead]
    equal((entry['state'], entry['exit_status'], entry['signal'],
           entry['reason'], entry['source'], entry['name']),
          ('ended', 137, 9, 'signal', None, None))
    check(entry['ended_us'] >= entry['started_us'] > 0, entry)
    page = f'{os.environ.get("PINFOLD_TOP", "../..")}/docs/json.md'
    if os.path.exists(page):
        with open(page, encoding='utf-8') as f:
            fields = f.read()
        for key in set(detailed):
            check(key in fields, f'{key} is not in docs/json.md')


@case
def ps_shows_names_and_lists_by_label(box):
    mine = f'test={box.top}'
    one = box.start('--label', mine, '--label', 'name=first')
    two = box.start('--label', mine, '--label', 'kind=b')
    equal(set(ps(box, '--label', mine)), {one, two})
    equal(set(ps(box, '--label', mine, '--label', 'kind')), {two})
    equal(set(ps(box, '--label', mine, '--label', 'kind=b')), {two})
    equal(set(ps(box, '--label', mine, '--label', 'kind=c')), set())
    equal(set(ps(box, '--label', f'{mine}x')), set())
    lines = box.pinfold('ps', '--label', mine).expect(0).out.decode()
    line = [l for l in lines.splitlines() if l.startswith(one)][0]
    check('first' in line.split(), line)
    within(box.pinfold('ps', one).expect(0).out.decode(), 'name       first')
    for task in (one, two):
        box.kill(task)


@case
def a_task_without_changes_names_another_of_its_source_that_has_some(box):
    task = box.sh('echo x >f', '--json').json()['id']
    box.run('--json', 'true').expect(0)
    hint = f'another task of the same source holds changes: pinfold diff {task}'
    box.pinfold('diff').expect(0, text=hint)
    box.pinfold('diff', 'f').expect(125, text=hint)
    box.pinfold('promote', '--yes').expect(0, text=hint)
    box.pinfold('promote', '--yes', 'f').expect(125, text=hint)
    box.pinfold('promote', '--yes', '--held', 'f').expect(
        125, text='has no changes to promote')
    box.pinfold('discard', '--yes').expect(0, text=hint)
    box.pinfold('promote', '--yes', task).expect(0)
    r = box.pinfold('diff').expect(0, text='no changes')
    check(b'another' not in r.err, 'what was promoted is still told')


@case
def rm_removes_what_ended_and_leaves_what_runs_or_holds_changes(box):
    """By name alone: other tasks of this caller may be somebody else's."""
    running = box.start()
    plain = box.run('--json', '--', 'true').json()['id']
    held = box.sh('echo x >new', '--json').json()['id']
    box.pinfold('rm', running).expect(125, text='is running')
    box.pinfold('rm', held).expect(125, text='holds changes')
    equal(len(box.changes(held)['changes']), 1)
    r = box.pinfold('rm', plain, held).expect(125, text='holds changes')
    equal(r.out, f'{plain} removed\n'.encode())
    check(not os.path.exists(box.folder(plain)), 'its directory')
    r = box.pinfold('rm', '--changes', '--json', held).expect(0)
    equal(json.loads(r.out), {'kept': [], 'removed': [held],
                              'schema': 'pinfold-rm-1'})
    check(not os.path.exists(box.folder(held)), 'its directory')
    box.pinfold('rm', held).expect(125, text='there is no task')
    box.pinfold('rm').expect(125, text='one of the three')
    box.pinfold('rm', '--all', running).expect(125, text='one of the three')
    box.exec(running, '--', 'true').expect(0)
    box.kill(running)
    box.pinfold('rm', running).expect(0)


@case
def rm_by_age_removes_the_old_and_says_what_it_left(box):
    if SITUATION != 'user':
        raise Skip('the state directory is not this test\'s own')
    old = box.run('--json', '--', 'true').json()['id']
    held = box.sh('echo x >new', '--json').json()['id']
    taken = box.sh('echo x >taken', '--json').json()['id']
    box.pinfold('promote', '--yes', taken).expect(0)
    running = box.start()
    r = box.pinfold('rm', '--older-than', '1h').expect(0, out=b'')
    equal(r.err, b'')
    time.sleep(0.02)
    r = box.pinfold('rm', '--older-than', '10ms', '--json').expect(0)
    report = json.loads(r.out)
    equal((report['removed'], report['kept']), ([old], [taken, held]))
    within(r.text(), '2 tasks are left for their changes, or for pinfold undo')
    box.pinfold('rm', '--all', '--changes').expect(
        0, out=f'{taken} removed\n{held} removed\n'.encode())
    box.exec(running, '--', 'true').expect(0)
    box.kill(running)


@case
def nothing_is_said_after_a_command_that_succeeded_when_asked_for_quiet(box):
    box.write('.env', 'SECRET')
    script = 'echo x >f; python3 -c "import socket; socket.create_connection(' \
        '(\'192.0.2.1\', 1))" 2>/dev/null; exit '
    loud = box.sh(script + '0').expect(0).text()
    for words in ('1 file changed', 'secrets', 'refused'):
        within(loud, words)
    for option in ('-q', '--quiet'):
        equal(box.sh(script + '0', option).expect(0).text(), '', option)
    failed = box.sh(script + '3', '-q').expect(3).text()
    for words in ('1 file changed', 'secrets', 'refused'):
        within(failed, words)
    within(box.run('-q', '--limit', 'wall=300ms', '--', 'sleep', '60').text(),
           'limit: wall')
    # Said or not, the record has it.
    r = box.sh(script + '0', '-q', '--json').expect(0)
    equal(r.json()['changes']['added'], 1)


@case
def exec_names_a_variable_that_the_caller_has_not(box):
    task = box.start('--env', 'LATER')
    r = box.exec(task, '--env', 'ABSENT', '--', 'true').expect(0)
    equal(r.text(), 'pinfold: --env ABSENT: the caller has no such variable\n')


if __name__ == '__main__':
    raise SystemExit(main())

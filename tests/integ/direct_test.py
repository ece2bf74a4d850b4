#!/usr/bin/python3
# limit: 300 s
"""A source that a task writes at once: what is protected is pinned, and what is
new of it has left the source before pinfold run returns."""
import os
import shutil
import signal
import socket
import stat
import subprocess
import tempfile

from box import (ID, PINFOLD, ROOT, SITUATION, Skip, case, check, equal,
                 find_below, main, start_time, wait_for, within)

DIRECT = ('--workspace', 'direct')
OWNER = 23456


def own(box, top=None):
    """Root's own source would be refused: it is given to somebody."""
    if ROOT:
        for folder, folders, files in os.walk(top or box.top):
            for name in ['.'] + folders + files:
                os.lchown(os.path.join(folder, name), OWNER, OWNER)


def direct(box, script, *options, **more):
    own(box)
    return box.sh(script, *DIRECT, *options, **more)


def task_of(result):
    """Of those who share the state directory, the one that was said."""
    return ID.search(result.text()).group()


def with_policy(box, files):
    path = f'{box.top}/p.yaml'
    with open(path, 'w', encoding='ascii') as f:
        f.write(f'version: 1\nfiles: {{workspace: direct, {files}}}\n')
    own(box)
    return ('--policy', path)


def kill_both(front, keeper):
    born = start_time(keeper)
    os.kill(front.pid, signal.SIGKILL)
    os.kill(keeper, signal.SIGKILL)
    front.wait()
    wait_for(lambda: start_time(keeper) != born, what="the keeper's end")


def read(path):
    with open(path, encoding='utf-8') as f:
        return f.read()


@case
def what_the_command_writes_is_in_the_source_at_once(box):
    box.write('old', 'old')
    own(box)
    p = box.spawn([PINFOLD, 'run', *DIRECT, '--', 'sh', '-c',
                   'echo new >new; echo more >>old; sleep 600'])
    wait_for(lambda: os.path.exists(f'{box.source}/new') and
             read(f'{box.source}/old') == 'oldmore\n', what='the writes')
    st = os.stat(f'{box.source}/new')
    equal(st.st_uid, os.stat(box.source).st_uid, 'the owner')
    p.send_signal(signal.SIGTERM)
    box.finish(p).expect(143)
    equal(read(f'{box.source}/new'), 'new\n')


@case
def what_is_protected_cannot_be_changed_removed_replaced_or_moved_away(box):
    box.write('.git/HEAD', 'ref: refs/heads/main\n')
    box.write('.git/config', '[core]\n')
    box.write('a/b/.envrc', 'host')
    box.write('a/.vscode/tasks.json', '{}')
    before = {p: os.stat(f'{box.source}/{p}').st_ino for p in
              ('.git', '.git/config', 'a/b/.envrc', 'a/.vscode/tasks.json')}
    r = direct(box, '''
        echo x >a/b/.envrc; echo x >.git/config; echo x >.git/new
        rm -f a/b/.envrc; rm -rf .git; mv .git g; mv a z; mv a/b a/c
        mv a/b/.envrc q; ln a/b/.envrc hard; echo x >evil
        mv -f evil a/b/.envrc; mv a/.vscode v; chmod 777 a/b/.envrc
        python3 - <<'E'
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
for a, b in (('a/b/.envrc', 'x'), ('.git', 'x'), ('a', 'x'), ('a/b', 'x'),
             ('a/.vscode', 'x')):
    try:
        os.rename(a, b); print('renamed', a)
    except OSError as e:
        print(e.errno)
    os.makedirs('other', exist_ok=True)
    if libc.renameat2(-100, a.encode(), -100, b'other', 2) == 0:
        print('exchanged', a)
E
        true''').expect(0)
    check('renamed' not in r.out.decode() and 'exchanged' not in
          r.out.decode(), r)
    # Out of a directory that is a mount of its own: EXDEV comes first.
    check(set(r.out.split()) <= {b'16', b'18'}, r)
    for path, ino in before.items():
        equal(os.stat(f'{box.source}/{path}').st_ino, ino, path)
    equal(read(f'{box.source}/a/b/.envrc'), 'host')
    equal(stat.S_IMODE(os.stat(f'{box.source}/a/b/.envrc').st_mode), 0o644)
    equal(read(f'{box.source}/.git/config'), '[core]\n')
    check(not os.path.exists(f'{box.source}/.git/new'), 'in .git')


@case
def what_is_new_and_protected_is_held_back_and_can_be_promoted(box):
    box.write('plain', 'x')
    r = direct(box, '''
        mkdir -p sub/.git/hooks deep/er/.vscode
        echo evil >sub/.git/hooks/post-commit; echo x >deep/er/file
        echo evil >deep/er/.vscode/tasks.json; echo evil >.envrc''').expect(0)
    within(r.text(), '3 protected paths were moved out of the source')
    for path in ('sub/.git', 'deep/er/.vscode/tasks.json', '.envrc'):
        check(not os.path.lexists(f'{box.source}/{path}'), path)
    equal(read(f'{box.source}/deep/er/file'), 'x\n')
    task = task_of(r)
    shown = box.pinfold('diff', task).expect(0).out.decode()
    for path in ('.envrc', 'sub/.git', 'tasks.json'):
        within(shown, path)
    within(shown, 'held back')
    box.pinfold('promote', '--yes', task)
    check(not os.path.exists(f'{box.source}/.envrc'), 'came by itself')
    box.pinfold('promote', '--yes', '--held', '.envrc', task).expect(0)
    equal(read(f'{box.source}/.envrc'), 'evil\n')
    equal(os.stat(f'{box.source}/.envrc').st_uid,
          os.stat(box.source).st_uid, 'its owner')
    box.pinfold('undo', task).expect(0)
    check(not os.path.exists(f'{box.source}/.envrc'), 'undone')
    box.pinfold('discard', '--yes', task)


@case
def a_new_repository_cannot_say_what_is_looked_for(box):
    box.write('lib/a', 'host')
    direct(box, '''
        mkdir -p .git/objects .git/refs; echo ref: refs/heads/x >.git/HEAD
        printf '[core]\\n\\thooksPath = lib\\n' >.git/config''').expect(0)
    check(not os.path.lexists(f'{box.source}/.git'), 'a repository is left')
    equal(read(f'{box.source}/lib/a'), 'host')


@case
def the_policys_protected_paths_are_pinned_and_held_back(box):
    box.write('ci/old.yml', 'host')
    box.sh('echo x >ci/old.yml; echo x >ci/new.yml; echo x >ci/other',
           *with_policy(box, 'protect: ["ci/*.yml"]')).expect(0)
    equal(sorted(os.listdir(f'{box.source}/ci')), ['old.yml', 'other'])
    equal(read(f'{box.source}/ci/old.yml'), 'host')


@case
def secrets_and_tokens_of_the_source_are_not_seen(box):
    box.write('.env', 'TOKEN=1')
    box.write('sub/.npmrc', 'TOKEN=2')
    box.write('.git/HEAD', 'ref: refs/heads/main\n')
    box.write('.git/config', '[remote "o"]\n\turl = https://u:TOKEN@h/x\n')
    r = direct(box, '''cat .env sub/.npmrc .git/config; cp .env copy
        rm -f .env; mv sub s''').expect(1)
    check(b'TOKEN' not in r.out, r)
    within(r.out.decode(), 'url = https://')
    within(r.text(), 'that may hold secrets')
    equal(read(f'{box.source}/.env'), 'TOKEN=1')
    within(read(f'{box.source}/.git/config'), 'TOKEN')


@case
def denied_directories_and_sockets_of_the_host_are_closed(box):
    box.write('private/key', 'TOKEN')
    s = socket.socket(socket.AF_UNIX)
    s.bind(os.path.relpath(f'{box.source}/sock'))
    s.listen()
    os.mkfifo(f'{box.source}/fifo')
    policy = with_policy(box, 'deny: [private]')
    r = box.sh('''cat private/key; ls private; python3 -c "
import socket
s = socket.socket(socket.AF_UNIX)
try:
    s.connect('sock'); print('connected')
except OSError as e:
    print(e.errno)
"; timeout 5 cat fifo && echo opened; true''', *policy).expect(0)
    check(b'TOKEN' not in r.out and b'connected' not in r.out and
          b'opened' not in r.out, r)


@case
def links_in_protected_places_are_put_back(box):
    box.write('real', 'x')
    box.write('sub/keep', 'x')
    os.symlink('../real', f'{box.source}/sub/.envrc')
    r = direct(box, 'rm sub/.envrc; echo evil >sub/.envrc; mv sub s2; '
               'true').expect(0)
    equal(os.readlink(f'{box.source}/sub/.envrc'), '../real')
    within(r.text(), '1 protected link was put back')


@case
def a_file_that_has_another_name_is_held_back_once_it_was_changed(box):
    box.write('.envrc', 'host')
    os.link(f'{box.source}/.envrc', f'{box.source}/other')
    r = direct(box, 'echo evil >other').expect(0)
    check(not os.path.lexists(f'{box.source}/.envrc'), 'is left')
    within(r.text(), '1 protected path was moved')


@case
def the_tree_of_a_direct_source_is_what_the_command_made_of_it(box):
    for name in ('file', 'dir/in', 'dir2/in', 'link-to'):
        box.write(name, name)
    os.symlink('file', f'{box.source}/link')
    r = direct(box, r'''
        rm file; mkdir file; rm -r dir; echo x >dir; ln -s x dir2/l
        rm link; mkdir link; echo a >h1; ln h1 h2
        truncate -s 1G sparse; mkfifo pipe; mknod dev c 1 3 2>/dev/null
        echo n >"$(printf 'bad\377name')"; echo n >Case; echo n >case
        python3 -c "
import socket, os
socket.socket(socket.AF_UNIX).bind('sock')
os.setxattr('h1', 'user.x', b'1')
os.setxattr('h1', 'user.overlay.opaque', b'y')
" || true
        cp /bin/true su; chmod 6755 su; echo x >closed; chmod 0 closed
        mkdir dark; echo evil >dark/.envrc; chmod 0 dark''').expect(0)
    top = box.source
    check(os.path.isdir(f'{top}/file') and os.path.isfile(f'{top}/dir') and
          os.path.isdir(f'{top}/link'), 'replacements')
    equal(os.stat(f'{top}/h1').st_ino, os.stat(f'{top}/h2').st_ino)
    check(os.stat(f'{top}/sparse').st_blocks < 100, 'sparse')
    check(b'bad\xffname' in os.listdir(os.fsencode(top)), 'bytes')
    check(not os.path.lexists(f'{top}/dev'), 'a device')
    equal(stat.S_IMODE(os.stat(f'{top}/su').st_mode), 0o755, 'set-id bits')
    equal(stat.S_IMODE(os.stat(f'{top}/closed').st_mode), 0)
    check(not [a for a in os.listxattr(f'{top}/h1')
               if a.startswith('user.overlay.')], 'a mark of overlayfs')
    within(r.text(), '1 file lost its set-id bits (su)')
    within(r.text(), '2 sockets or FIFOs are in the source')
    within(r.text(), '1 protected path was moved out of the source')
    os.chmod(f'{top}/dark', 0o700)
    equal(os.listdir(f'{top}/dark'), [])


@case
def a_process_that_goes_on_writing_is_dead_before_the_source_is_looked_at(box):
    for _ in range(3):
        direct(box, '''
            (while :; do echo x >.envrc; mkdir -p n/.git; done) 2>/dev/null &
            setsid sh -c 'while :; do echo y >n/.envrc; done' 2>/dev/null &
            sleep 0.2''').expect(0)
        check(not os.path.lexists(f'{box.source}/.envrc'), '.envrc')
        left = [n for n in os.listdir(f'{box.source}/n')
                if n in ('.git', '.envrc')]
        equal(left, [])


@case
def after_both_are_killed_the_next_command_does_the_moving(box):
    own(box)
    for then in (['diff'], ['run', '--', 'true'], ['discard', '--yes'],
                 ['rm', '--older-than', '90d']):
        p = box.spawn([PINFOLD, 'run', *DIRECT, '--', 'sh', '-c',
                       'echo x >.envrc; echo x >ready; sleep 600'])
        wait_for(lambda: os.path.exists(f'{box.source}/ready'), what='ready')
        keeper = find_below(p.pid, 'pinfold-keeper')
        kill_both(p, keeper)
        r = box.pinfold(*then)
        check(not os.path.lexists(f'{box.source}/.envrc'), r)
        within(r.text(), 'was interrupted', then)
        os.unlink(f'{box.source}/ready')


@case
def a_killed_keeper_does_not_leave_what_is_protected(box):
    own(box)
    p = box.spawn([PINFOLD, 'run', *DIRECT, '--', 'sh', '-c',
                   'echo x >.envrc; echo x >ready; sleep 600'])
    wait_for(lambda: os.path.exists(f'{box.source}/ready'), what='ready')
    os.kill(find_below(p.pid, 'pinfold-keeper'), signal.SIGKILL)
    box.finish(p).expect(125)
    check(not os.path.lexists(f'{box.source}/.envrc'), 'is left')


@case
def limits_of_disk_and_files_stop_the_task(box):
    box.write('big', b'x' * (4 << 20))
    r = direct(box, 'i=0; while :; do head -c 100000 /dev/zero >f$i; '
               'i=$((i+1)); sleep 0.001; done', '--limit', 'disk=16MiB')
    check(r.status == 137 and 'limit: disk' in r.text(), r)


@case
def what_cannot_be_had_is_refused_by_name(box):
    own(box)
    r = box.pinfold('start', *DIRECT).expect(125)
    within(r.text(), 'sandbox that stays')
    if ROOT:
        os.chown(box.source, 0, 0)
        r = box.sh('true', *DIRECT).expect(125)
        within(r.text(), 'belongs to root')
    own(box)
    if SITUATION == 'user':
        r = box.sh('true', *DIRECT, env={
            **box.env, 'XDG_STATE_HOME': f'{box.source}/state'})
        within(r.expect(125).text(), 'state directory')
        os.mkdir(f'{box.source}/shut', 0o300)
        r = box.sh('true', *DIRECT).expect(125)
        within(r.text(), 'workspace direct (overlay and copy do without): '
               'cannot open "shut": Permission denied')
        os.rmdir(f'{box.source}/shut')
    for extra in ('identity: range', 'nesting: true'):
        path = f'{box.top}/q.yaml'
        with open(path, 'w', encoding='ascii') as f:
            f.write(f'version: 1\n{extra}\nfiles: {{workspace: direct}}\n')
        r = box.sh('true', '--policy', path).expect(125)
        within(r.text(), 'files.workspace: direct is not supported')
        within(r.text(), 'use overlay or copy')


@case
def what_a_protected_link_leads_to_is_pinned_as_well(box):
    box.write('real/config', 'host')
    box.write('hook.sh', 'host')
    box.write('tools/x', 'host')
    box.write('.git/HEAD', 'ref: refs/heads/main\n')
    box.write('.git/hooks/README', 'x')
    for target, path in (('real/config', '.envrc'), ('tools', 'way'),
                         ('way/x', '.bashrc'), ('later/made', '.zshrc'),
                         ('/outside', '.npmrc'), ('.zshrc', '.profile'),
                         ('../../hook.sh', '.git/hooks/pre-commit')):
        os.symlink(target, f'{box.source}/{path}')
    r = direct(box, '''
        for f in real/config hook.sh tools/x; do echo evil >$f; rm -f $f; done
        mv real r; mv tools t; rm way; mkdir way; echo evil >way/x
        mkdir later; echo evil >later/made; echo fine >later/other
        true''').expect(0)
    for path in ('real/config', 'hook.sh', 'tools/x', '.envrc', '.bashrc',
                 '.git/hooks/pre-commit'):
        equal(read(f'{box.source}/{path}'), 'host', path)
    equal(os.readlink(f'{box.source}/way'), 'tools', r)
    equal(os.listdir(f'{box.source}/later'), ['other'], r)


@case
def a_git_directory_behind_a_link_or_a_file_is_pinned(box):
    for path in ('repo/HEAD', 'repo/config', 'work/.git', 'bare.git/HEAD',
                 'bare.git/config', 'bare.git/hooks/update', 'm/.git/config'):
        box.write(path, 'host')
    os.mkdir(f'{box.source}/repo/refs')
    os.symlink('repo', f'{box.source}/.git')
    r = direct(box, '''
        for f in repo/HEAD repo/config work/.git bare.git/HEAD bare.git/config \\
                bare.git/hooks/update m/.git/config repo/hooks/post-commit \\
                repo/config.worktree repo/refs/x bare.git/hooks/pre-receive
        do echo evil >$f; mkdir -p $(dirname $f); echo evil >$f; rm -rf $f
                echo evil >$f; done
        rm .git; ln -s work .git; mv work w; mv m x; mv bare.git b
        true''').expect(0)
    for folder, _, files in os.walk(box.source):
        for name in files:
            equal(read(f'{folder}/{name}'), 'host', f'{folder}/{name} {r}')
    equal(os.readlink(f'{box.source}/.git'), 'repo')
    equal(sorted(os.listdir(f'{box.source}/repo')), ['HEAD', 'config', 'refs'])


@case
def a_protected_path_that_is_another_name_or_a_link_is_moved_as_such(box):
    box.write('plain', 'x')
    r = direct(box, '''ln plain .envrc; ln -s /etc/passwd .bashrc
        ln -s ../plain .vscode; mkfifo .npmrc; mkdir .idea; mkfifo .idea/f
        mkdir d; mv d .zed''').expect(0)
    equal(os.listdir(box.source), ['plain'], r)
    equal(read(f'{box.source}/plain'), 'x')
    upper = f'{box.folder(task_of(r))}/upper'
    equal(os.readlink(f'{upper}/.bashrc'), '/etc/passwd')
    check(stat.S_ISFIFO(os.lstat(f'{upper}/.npmrc').st_mode), 'the FIFO')
    equal(read(f'{upper}/.envrc'), 'x')


@case
def what_is_held_back_comes_whole_from_one_file_system_to_another(box):
    other = tempfile.mkdtemp(prefix='pinfold-direct.', dir='/dev/shm')
    try:
        os.chmod(other, 0o755)
        with open(f'{other}/keep', 'w', encoding='ascii') as f:
            f.write('x')
        own(box, other)
        r = box.sh(r'''
            mkdir -p .vscode/a; cd .vscode; echo one >f; ln f a/g
            ln -s ../keep l; truncate -s 100M sparse; echo s >shut; chmod 0 shut
            printf x >"$(printf 'bad\377name')"; mkdir closed; echo c >closed/c
            cp /bin/true su; chmod 6755 su; chmod 0 closed; mkfifo pipe
            d=.; i=0; while [ $i -lt 300 ]; do d=$d/deep; i=$((i+1)); done
            mkdir -p $d; echo bottom >$d/b; touch -d 2001-01-01 f
            cd ..; echo e >.envrc; chmod 700 .vscode''', *DIRECT, '--source',
                   other, cwd=other).expect(0)
        within(r.text(), '2 protected paths were moved')
        equal(os.listdir(other), ['keep'])
        upper = f'{box.folder(task_of(r))}/upper'
        top = f'{upper}/.vscode'
        equal(os.stat(f'{top}/f').st_ino, os.stat(f'{top}/a/g').st_ino)
        equal(read(f'{top}/a/g'), 'one\n')
        equal(int(os.stat(f'{top}/f').st_mtime) // 10**8, 9)
        equal(os.readlink(f'{top}/l'), '../keep')
        check(os.stat(f'{top}/sparse').st_blocks < 100, 'the holes')
        equal(stat.S_IMODE(os.stat(f'{top}/shut').st_mode), 0)
        equal(stat.S_IMODE(os.stat(f'{top}/closed').st_mode), 0)
        equal(stat.S_IMODE(os.stat(f'{top}/su').st_mode), 0o755)
        check(b'bad\xffname' in os.listdir(os.fsencode(top)), 'its name')
        equal(read(f'{top}/{"deep/" * 300}b'), 'bottom\n')
        equal(read(f'{upper}/.envrc'), 'e\n')
        equal(os.stat(f'{upper}/.envrc').st_uid, os.stat(other).st_uid)
        box.pinfold('promote', '--yes', '--held', '.envrc', '--only', '.envrc',
                    task_of(r)).expect(0)
        equal(read(f'{other}/.envrc'), 'e\n')
        box.pinfold('discard', '--yes', task_of(r)).expect(0)
    finally:
        shutil.rmtree(other, ignore_errors=True)


@case
def deep_trees_are_looked_through_to_the_bottom(box):
    r = direct(box, '''python3 -c "
import os
for i in range(3000):
    os.mkdir('d'); os.chdir('d')
open('.envrc', 'w').close()
"''').expect(0)
    fd, depth = os.open(box.source, os.O_PATH), 0
    while True:
        try:
            below = os.open('d', os.O_PATH, dir_fd=fd)
        except FileNotFoundError:
            break
        os.close(fd)
        fd, depth = below, depth + 1
    equal(depth, 3000)
    left = os.listdir(f'/proc/self/fd/{fd}')
    os.close(fd)
    subprocess.run(['rm', '-rf', f'{box.source}/d'], check=True)
    box.pinfold('discard', '--yes', task_of(r)).expect(0)
    equal(left, [])


@case
def denied_paths_are_covered_or_moved_or_the_start_is_refused(box):
    box.write('old.pem', 'TOKEN')
    box.write('key', 'TOKEN')
    policy = with_policy(box, 'deny: ["**/*.pem", key]')
    r = box.sh('cat old.pem key; echo x >new.pem; rm -f key; true',
               *policy).expect(0)
    check(b'TOKEN' not in r.out, r)
    equal(read(f'{box.source}/key'), 'TOKEN')
    check(not os.path.exists(f'{box.source}/new.pem'), r)
    r = box.pinfold('promote', '--yes', '--held', 'new.pem', task_of(r))
    check(not os.path.exists(f'{box.source}/new.pem'), r)
    os.unlink(f'{box.source}/key')
    within(box.sh('true', *policy).expect(125).text(),
           'files.deny: key does not exist yet')
    os.symlink('old.pem', f'{box.source}/key')
    within(box.sh('true', *policy).expect(125).text(),
           'files.deny: key is a link')


@case
def a_grant_in_the_source_is_as_it_is_in_other_modes(box):
    box.write('kept/.envrc', 'host')
    box.write('kept/f', 'host')
    own(box)
    r = box.sh('echo x >kept/f; echo x >kept/n; echo x >kept/.envrc; true',
               *DIRECT, '--write', f'{box.source}/kept').expect(0)
    equal(sorted(os.listdir(f'{box.source}/kept')), ['.envrc', 'f'], r)
    equal(read(f'{box.source}/kept/f'), 'host')
    equal(read(f'{box.source}/kept/.envrc'), 'host')
    box.sh('cat kept/.envrc', *DIRECT, '--read',
           f'{box.source}/kept/.envrc').expect(0, b'host')


@case
def the_other_verbs_say_that_the_source_was_written_at_once(box):
    r = direct(box, 'echo x >new; echo x >.envrc').expect(0)
    task = task_of(r)
    wrote = f'{task} wrote its source at once'
    shown = box.pinfold('diff', task).expect(0)
    within(shown.text(), wrote)
    check(b'.envrc' in shown.out and b'new' not in shown.out, shown)
    within(box.pinfold('undo', task).expect(125).text(),
           'it wrote its source at once')
    within(box.pinfold('ps', task).expect(0).out.decode(),
           'direct: the source was written at once')
    r = box.pinfold('promote', '--yes', task)
    within(r.text(), wrote)
    check(not os.path.exists(f'{box.source}/.envrc'), r)
    r = box.pinfold('promote', '--yes', '--held', '.envrc', task).expect(0)
    within(r.text(), 'warning: ".envrc" is taken over')
    box.pinfold('undo', task).expect(0)
    within(box.pinfold('discard', '--yes', task).expect(0).text(),
           f'what {task} wrote to its source stays')
    equal(sorted(os.listdir(box.source)), ['new'])
    r = direct(box, 'echo y >new').expect(0)
    within(box.pinfold('diff').text(), 'was held back')
    p = box.spawn([PINFOLD, 'run', *DIRECT, '--', 'sh', '-c',
                   'echo x >ready; sleep 600'])
    wait_for(lambda: os.path.exists(f'{box.source}/ready'), what='ready')
    within(box.pinfold('diff').text(), 'writes its source at once')
    p.send_signal(signal.SIGTERM)
    box.finish(p).expect(143)


@case
def a_source_that_was_replaced_is_left_alone_until_it_is_given_up(box):
    own(box)
    p = box.spawn([PINFOLD, 'run', *DIRECT, '--', 'sh', '-c',
                   'echo x >.envrc; echo x >ready; sleep 600'])
    wait_for(lambda: os.path.exists(f'{box.source}/ready'), what='ready')
    keeper = find_below(p.pid, 'pinfold-keeper')
    kill_both(p, keeper)
    os.rename(box.source, f'{box.source}.old')
    os.mkdir(box.source)
    box.write('.envrc', 'mine')
    r = box.pinfold('diff')
    within(r.text(), 'the source was replaced')
    task = task_of(r)
    within(box.pinfold('promote', '--yes', task).expect(125).text(),
           f'pinfold discard {task} gives it up')
    box.pinfold('rm', '--changes', task).expect(125)
    box.pinfold('discard', '--yes', task).expect(0)
    check('replaced' not in box.pinfold('diff', task).text(), 'said again')
    equal(read(f'{box.source}/.envrc'), 'mine')


@case
def what_the_host_mounts_meanwhile_is_not_seen_and_is_named(box):
    if SITUATION == 'user':
        raise Skip('nobody may mount there')
    os.mkdir(f'{box.source}/mnt')
    own(box)
    subprocess.run(['mount', '--bind', box.source, box.source], check=True)
    try:
        subprocess.run(['mount', '--make-shared', box.source], check=True)
        p = box.spawn([PINFOLD, 'run', *DIRECT, '--', 'sh', '-c',
                       'echo x >ready; while [ -e ready ]; do sleep .1; done; '
                       'echo x >mnt/.envrc'])
        wait_for(lambda: os.path.exists(f'{box.source}/ready'), what='ready')
        subprocess.run(['mount', '-t', 'tmpfs', '-o', 'mode=777', 'none',
                        f'{box.source}/mnt'], check=True)
        os.unlink(f'{box.source}/ready')
        r = box.finish(p).expect(125)
        within(r.text(), '"mnt"')
        equal(os.listdir(f'{box.source}/mnt'), [])
        subprocess.run(['umount', f'{box.source}/mnt'], check=True)
        box.pinfold('diff', task_of(r)).expect(0)
        equal(os.listdir(f'{box.source}/mnt'), [])
    finally:
        subprocess.run(['umount', '-R', box.source], check=False)


@case
def a_front_end_that_is_killed_leaves_the_moving_to_the_next_command(box):
    own(box)
    p = box.spawn([PINFOLD, 'run', *DIRECT, '--', 'sh', '-c',
                   'trap "" TERM; echo x >.envrc; mkdir dark; echo x '
                   '>dark/.envrc; chmod 0 dark; echo x >ready; sleep 600'])
    wait_for(lambda: os.path.exists(f'{box.source}/ready'), what='ready')
    p.kill()
    p.wait()

    def is_moved():
        box.pinfold('diff')
        return not os.path.lexists(f'{box.source}/.envrc')
    wait_for(is_moved, 60, 'the moving')
    os.chmod(f'{box.source}/dark', 0o700)
    equal(os.listdir(f'{box.source}/dark'), [])


if __name__ == '__main__':
    raise SystemExit(main())

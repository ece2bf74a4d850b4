#!/usr/bin/python3
# limit: 400 s
"""pinfold refresh: a sandbox that stays sees the host's files as they are now,
keeps what its task has changed, and names what both have changed; what the task
touches afterwards is promoted as if it had begun then."""
import json
import os
import shutil
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from box import (PINFOLD, ROOT, case, check, equal, long_case, main, patient,
                 wait_for, within)
from repository import git, plant, sound, told

MODES = ('overlay', 'copy')
# Looks at everything, so that whatever is remembered is.
LOOK = 'find . -type f -exec cat {} + >/dev/null 2>&1; ls -lR >/dev/null; '


def start(box, mode, script='true', *options):
    task = box.start('--workspace', mode, *options)
    sh(box, task, LOOK + script)
    return task


def sh(box, task, script, status=0):
    return box.exec(task, '--', 'sh', '-c', script).expect(status).out.decode()


def refresh(box, task, status=0):
    r = box.pinfold('refresh', '--json', task).expect(status)
    found = json.loads(r.out)
    equal(found['schema'], 'pinfold-refresh-1')
    equal(found['id'], task)
    return found


def conflicts(found):
    return {c['path']: c['reason'] for c in found['conflicts']}


def seen(box, task):
    """Mapping of path to content as the sandbox has it; b'/' a directory."""
    text = sh(box, task, r'''python3 - <<'X'
import json, os
found = {}
for folder, folders, files in os.walk('.'):
    for name in folders + files:
        path = os.path.join(folder, name)
        if os.path.islink(path):
            found[path] = '->' + os.readlink(path)
        elif os.path.isdir(path):
            found[path] = '/'
        else:
            try:
                found[path] = open(path).read()
            except OSError as e:
                found[path] = e.strerror
print(json.dumps(found))
X''')
    return {os.path.normpath(p): w for p, w in json.loads(text).items()}


def have(box):
    found = {}
    for folder, folders, files in os.walk(box.source):
        for name in folders + files:
            path = os.path.join(folder, name)
            relative = os.path.relpath(path, box.source)
            if os.path.islink(path):
                found[relative] = '->' + os.readlink(path)
            elif os.path.isdir(path):
                found[relative] = '/'
            else:
                with open(path, encoding='utf-8') as f:
                    found[relative] = f.read()
    return found


def save(box, name, text):
    """As editors do: a new file, renamed into place."""
    os.rename(box.write(f'{name}~', text), f'{box.source}/{name}')


def end(box, task):
    box.pinfold('stop', task).expect(0)
    box.started.remove(task)


def promoted(box, task, status=0):
    return {p: (c['result'], c['reason'] or '')
            for p, c in told(box, task, status=status).items()}


def content(box, name):
    with open(f'{box.source}/{name}', encoding='utf-8') as f:
        return f.read()


def plant_tree(box, mode='overlay'):
    for name in ('saved', 'edited', 'removed', 'was-dir/f', 'was-file',
                 'again/old', 'tree/a/b/c', 'tree/d', 'same', 'moved/m'):
        box.write(name, f'{name}\n')
    os.symlink('same', f'{box.source}/link')
    # In a copy a file of two names seems to be touched when the host's is.
    if mode == 'overlay':
        os.link(f'{box.source}/same', f'{box.source}/same2')
    else:
        box.write('same2', 'x')


def change_tree(box):
    """One of everything that a pull or an editor does."""
    save(box, 'saved', 'saved anew\n')
    with open(f'{box.source}/edited', 'a', encoding='utf-8') as f:
        f.write('more\n')
    os.unlink(f'{box.source}/removed')
    shutil.rmtree(f'{box.source}/was-dir')
    box.write('was-dir', 'a file now\n')
    os.unlink(f'{box.source}/was-file')
    box.write('was-file/in', 'a directory now\n')
    shutil.rmtree(f'{box.source}/again')
    box.write('again/new', 'new\n')
    shutil.rmtree(f'{box.source}/tree/a')
    box.write('tree/e/f', 'new\n')
    os.unlink(f'{box.source}/link')
    os.symlink('edited', f'{box.source}/link')
    box.write('come', 'come\n')
    os.rename(f'{box.source}/moved', f'{box.source}/gone-there')
    os.unlink(f'{box.source}/same2')


@case
def the_sandbox_sees_all_that_the_host_has_changed(box):
    for mode in MODES:
        plant_tree(box, mode)
        task = start(box, mode, 'cat come tree/e/f 2>/dev/null; true')
        equal(seen(box, task), have(box), mode)
        change_tree(box)
        check(seen(box, task) != have(box), 'a view that is never old')
        found = refresh(box, task)
        equal(conflicts(found), {}, mode)
        equal(found['kept'], 0, mode)
        equal(seen(box, task), have(box), mode)
        end(box, task)
        equal(promoted(box, task), {}, mode)
        shutil.rmtree(box.source)
        os.mkdir(box.source)


@case
def what_the_task_has_changed_stays_and_is_named_where_the_host_did_too(box):
    for mode in MODES:
        plant_tree(box, 'copy')
        task = start(box, mode, '''
            echo task >>saved; echo task >>same; rm edited; echo task >own
            echo task >come; rm -r tree; mkdir was-dir/sub
            echo task >was-dir/sub/x; mkdir both; echo task >both/mine''')
        change_tree(box)
        box.write('both/theirs', 'host\n')
        found = conflicts(refresh(box, task, status=1))
        equal(set(found), {'saved', 'edited', 'come', 'tree', 'was-dir' if
                           mode == 'overlay' else 'was-dir/sub'}, mode)
        within(found['saved'], 'changed on the host')
        within(found['come'], 'on the host since')
        now = seen(box, task)
        equal(now['saved'], 'saved\ntask\n', mode)
        equal(now['same'], 'same\ntask\n', mode)
        equal(now['own'], 'task\n', mode)
        equal(now['come'], 'task\n', mode)
        equal(now['both/mine'], 'task\n', mode)
        equal(now['both/theirs'], 'host\n', mode)
        equal(now['was-dir/sub/x'], 'task\n', mode)
        for name in ('edited', 'tree', 'tree/e/f', 'removed', 'moved/m'):
            check(name not in now, f'{mode}: {name}')
        equal(now['was-file/in'], 'a directory now\n', mode)
        end(box, task)
        result = promoted(box, task, status=1)
        equal(result['same'][0], 'promoted', mode)
        equal(result['own'][0], 'promoted', mode)
        for name in ('saved', 'edited', 'come'):
            equal(result[name][0], 'conflict', f'{mode} {name}')
        equal(content(box, 'saved'), 'saved anew\n', mode)
        shutil.rmtree(box.source)
        os.mkdir(box.source)


@case
def what_is_first_touched_after_a_refresh_is_promoted(box):
    for mode in MODES:
        for name in ('one', 'two', 'three', 'dir/four', 'gone'):
            box.write(name, 'old\n')
        task = start(box, mode, 'echo task >>three')
        for name in ('one', 'two', 'dir/four', 'gone'):
            save(box, name, 'host\n')
        equal(conflicts(refresh(box, task)), {}, mode)
        sh(box, task, 'echo task >>one; echo task >>dir/four; rm gone')
        save(box, 'two', 'later\n')
        sh(box, task, 'echo task >>two')
        end(box, task)
        result = promoted(box, task, status=1)
        for name in ('one', 'three', 'dir/four', 'gone'):
            equal(result[name][0], 'promoted', f'{mode} {name}')
        equal(result['two'][0], 'conflict', mode)
        equal(content(box, 'one'), 'host\ntask\n', mode)
        equal(content(box, 'two'), 'later\n', mode)
        shutil.rmtree(box.source)
        os.mkdir(box.source)


@case
def a_conflict_stays_one_however_the_task_saves_the_file_later(box):
    for mode in MODES:
        for name in ('f', 'g', 'dir/h'):
            box.write(name, 'old\n')
        task = start(box, mode, 'echo task >>f; echo task >>g; '
                     'rm -r dir; mkdir dir; echo task >dir/n')
        for name in ('f', 'g', 'dir/h'):
            save(box, name, 'host\n')
        check('f' in conflicts(refresh(box, task, status=1)), mode)
        sh(box, task, 'echo again >f~; mv f~ f; rm g; echo anew >g; '
           'echo again >dir/h')
        check('f' in conflicts(refresh(box, task, status=1)), mode)
        end(box, task)
        result = promoted(box, task, status=1)
        for name in ('f', 'g', 'dir/h'):
            equal(result[name][0], 'conflict', f'{mode} {name}')
            equal(content(box, name), 'host\n', mode)
        shutil.rmtree(box.source)
        os.mkdir(box.source)


@case
def it_can_be_done_again_and_again(box):
    for mode in MODES:
        box.write('f', '0\n')
        box.write('dir/g', '0\n')
        task = start(box, mode)
        for n in range(1, 6):
            save(box, 'f', f'{n}\n')
            box.write(f'dir/new{n}', 'x\n')
            if n > 1:
                os.unlink(f'{box.source}/dir/new{n - 1}')
            sh(box, task, LOOK + f'echo task >own{n}')
            equal(conflicts(refresh(box, task)), {}, mode)
            equal(refresh(box, task)['kept'], n, mode)
            equal(seen(box, task)['f'], f'{n}\n', mode)
            equal(os.listdir(f'{box.source}/dir').sort(), sh(
                box, task, 'ls dir').split().sort(), mode)
        end(box, task)
        equal(set(promoted(box, task)), {f'own{n}' for n in range(1, 6)}, mode)
        shutil.rmtree(box.source)
        os.mkdir(box.source)


@case
def what_runs_in_the_sandbox_is_named_and_nothing_is_done(box):
    box.write('f', 'old\n')
    task = start(box, 'overlay')
    command = box.spawn([PINFOLD, 'exec', task, '--', 'sh', '-c',
                         'echo up; exec sleep 1000'])
    equal(command.stdout.readline(), b'up\n')
    save(box, 'f', 'host\n')
    box.pinfold('refresh', task).expect(125, text=f'command 2 of {task} still '
                                        'runs')
    command.kill()
    command.wait()
    wait_for(lambda: box.pinfold('refresh', task).status == 0, 20,
             'the end of the command')
    equal(sh(box, task, 'cat f'), 'host\n')
    pid = sh(box, task, 'sleep 1000 </dev/null >/dev/null 2>&1 & echo $!')
    r = box.pinfold('refresh', task)
    r.expect(125, text='processes that a command has left')
    r.expect(125, text=f'pinfold exec {task} -- kill PID')
    sh(box, task, f'kill {pid}')
    wait_for(lambda: box.pinfold('refresh', task).status == 0, 20,
             'the end of the process')


@case
def what_cannot_be_refreshed_is_refused_by_name(box):
    box.write('f', 'old\n')
    task = start(box, 'overlay')
    box.pinfold('refresh', '--merge', task).expect(
        125, text='refresh does not merge')
    end(box, task)
    box.pinfold('refresh', task).expect(125, text='is not running')
    none = box.start('--source', 'none')
    box.pinfold('refresh', none).expect(125, text='without a source')
    box.write('a/b/c/f', 'x\n')
    deep = box.start('--workspace', 'overlay', '--read',
                     f'{box.source}/a/b/c')
    box.pinfold('refresh', deep).expect(125, text='lies deep in another')
    task = box.start()
    os.rename(box.source, f'{box.source}.old')
    os.mkdir(box.source)
    r = box.pinfold('refresh', task)
    r.expect(125, text='is another directory than')
    r.expect(125, text=f'pinfold stop {task}')


@case
def secrets_that_have_come_to_the_host_are_hidden(box):
    plant(box)
    for mode in MODES:
        box.write('sub/x', 'x\n')
        task = start(box, mode, 'mkdir -p mine; echo x >mine/x; '
                     'cat .env sub/.env 2>/dev/null; true')
        box.write('.env', 'SECRET=1\n')
        box.write('sub/.env', 'SECRET=2\n')
        box.write('sub/deep/id_rsa', 'SECRET=3\n')
        box.write('real', 'SECRET=4\n')
        os.symlink('../real', f'{box.source}/sub/.npmrc')
        git(box, 'config', 'remote.origin.url',
            'https://me:SECRET5@host.example/r')
        refresh(box, task)
        text = sh(box, task, 'grep -rs SECRET . ; true')
        equal(text, '', mode)
        within(sh(box, task, 'cat .git/config'), 'host.example', mode)
        sh(box, task, 'echo task >real')
        end(box, task)
        r = told(box, task)
        equal(r['real']['result'], 'held back', mode)
        within(r['real']['reason'], 'hidden from the task', mode)
        equal(content(box, 'real'), 'SECRET=4\n')
        for name in ('.env', 'real', 'sub/.npmrc'):
            os.unlink(f'{box.source}/{name}')
        shutil.rmtree(f'{box.source}/sub')
        git(box, 'config', '--unset', 'remote.origin.url')


@case
def what_is_hidden_follows_the_directories_of_the_host(box):
    box.write('conf/.env', 'SECRET\n')
    box.write('conf/x', 'x\n')
    task = start(box, 'overlay')
    shutil.rmtree(f'{box.source}/conf')
    refresh(box, task)
    check('conf' not in seen(box, task), 'a directory that is gone')
    box.write('conf', 'a file\n')
    refresh(box, task)
    equal(seen(box, task), {'conf': 'a file\n'})
    os.unlink(f'{box.source}/conf')
    box.write('conf/.env', 'SECRET\n')
    os.chmod(f'{box.source}/conf', 0o750)
    refresh(box, task)
    equal(seen(box, task), {'conf': '/'})
    equal(sh(box, task, 'stat -c %a conf'), '750\n')


@case
def many_hidden_files_are_hidden_still_and_more_are_refused(box):
    for n in range(100):
        box.write(f'd{n}/.env', 'SECRET\n')
    task = start(box, 'overlay')
    box.write('f', 'new\n')
    refresh(box, task)
    equal(sh(box, task, 'cat f; grep -rs SECRET . ; true'), 'new\n')
    box.write('d5/x/.env', 'SECRET\n')
    box.pinfold('refresh', task).expect(125, text='"d5/x/.env" is to be hidden')


@case
def the_hosts_commits_are_seen_and_those_of_the_task_are_promoted(box):
    for mode in MODES:
        shutil.rmtree(f'{box.source}/.git', ignore_errors=True)
        plant(box)
        task = start(box, mode, 'git status >/dev/null; git log >/dev/null')
        box.write('a', 'host\n')
        git(box, 'commit', '-q', '-a', '-m', 'hosts')
        git(box, 'branch', 'other')
        git(box, 'pack-refs', '--all')
        equal(conflicts(refresh(box, task)), {}, mode)
        equal(sh(box, task, 'git log --format=%s; git status --short; '
                 'git rev-parse other'),
              f'hosts\nfirst\n{git(box, "rev-parse", "other")}\n', mode)
        sh(box, task, 'echo task >b; git commit -q -a -m tasks')
        end(box, task)
        r = promoted(box, task)
        equal(r['.git/refs/heads/main'][0], 'promoted', mode)
        equal(git(box, 'log', '--format=%s'), 'tasks\nhosts\nfirst', mode)
        equal(git(box, 'status', '--short'), '', mode)
        sound(box)


@case
def a_commit_after_a_refresh_does_not_take_the_hosts_back(box):
    """The index that any git status makes is of the commit before."""
    for mode in MODES:
        shutil.rmtree(f'{box.source}/.git', ignore_errors=True)
        plant(box)
        task = start(box, mode, 'git status >/dev/null; '
                     'mkdir -p .git/index.task/x .git/index.refresh; '
                     'echo staged >c; git add c')
        box.write('a', 'host\n')
        git(box, 'commit', '-q', '-a', '-m', 'hosts')
        r = box.pinfold('refresh', task)
        within(r.text(), '.git/index.task', mode)
        equal(sh(box, task, 'git status --short; GIT_INDEX_FILE=.git/index.task '
                 'git show :c'), ' M c\nstaged\n', mode)
        sh(box, task, 'echo task >b; git add b; git commit -q -m tasks')
        end(box, task)
        promoted(box, task)
        equal(git(box, 'show', 'main:a'), 'host', mode)
        equal(git(box, 'show', 'main:b'), 'task', mode)
        equal(git(box, 'status', '--short'), ' M c', mode)
        sound(box)


@case
def what_is_staged_stays_staged_unless_the_host_checks_something_out(box):
    for mode in MODES:
        shutil.rmtree(f'{box.source}/.git', ignore_errors=True)
        plant(box)
        task = start(box, mode, 'echo staged >c; git add c')
        os.utime(f'{box.source}/a', (1, 1))
        git(box, 'status')
        equal(conflicts(refresh(box, task)), {}, mode)
        equal(sh(box, task, 'git status --short'), 'M  c\n', mode)
        box.write('a', 'host\n')
        git(box, 'commit', '-q', '-a', '-m', 'hosts')
        refresh(box, task)
        equal(sh(box, task, 'git status --short; git add c'), ' M c\n', mode)
        refresh(box, task)
        equal(sh(box, task, 'git status --short'), 'M  c\n', mode)


@case
def a_branch_that_both_have_moved_is_a_conflict(box):
    for mode in MODES:
        shutil.rmtree(f'{box.source}/.git', ignore_errors=True)
        plant(box)
        task = start(box, mode, 'echo task >b; git commit -q -a -m tasks')
        box.write('a', 'host\n')
        git(box, 'commit', '-q', '-a', '-m', 'hosts')
        host = git(box, 'rev-parse', 'main')
        r = box.pinfold('refresh', task).expect(1)
        within(r.out.decode(), 'conflict: .git/refs/heads/main', mode)
        equal(sh(box, task, 'git log --format=%s; cat a'),
              'tasks\nfirst\nhost\n', mode)
        sh(box, task, 'echo task >c; git commit -q -a -m more')
        end(box, task)
        r = promoted(box, task, status=1)
        equal(r['.git/refs/heads/main'][0], 'conflict', mode)
        equal(git(box, 'rev-parse', 'main'), host, mode)
        sound(box)


@case
def further_directories_are_refreshed_too(box):
    written, read = f'{box.home}/written', f'{box.home}/read'
    for top in (written, read):
        os.mkdir(top)
        for name in 'fg':
            with open(f'{top}/{name}', 'w', encoding='utf-8') as f:
                f.write('old\n')
    task = box.start('--write', written, '--read', read)
    sh(box, task, f'cat {written}/* {read}/* >/dev/null; '
       f'echo task >>{written}/g')
    for top in (written, read):
        for name in 'fg':
            with open(f'{top}/n', 'w', encoding='utf-8') as f:
                f.write('host\n')
            os.rename(f'{top}/n', f'{top}/{name}')
    found = refresh(box, task, status=1)
    equal(set(conflicts(found)), {f'{written}/g'})
    equal(sh(box, task, f'cat {written}/f {read}/f {read}/g {written}/g'),
          'host\n' * 3 + 'old\ntask\n')
    sh(box, task, f'echo task >>{written}/f')
    end(box, task)
    r = promoted(box, task, status=1)
    equal(r[f'{written}/f'][0], 'promoted')
    equal(r[f'{written}/g'][0], 'conflict')


@long_case
def a_refresh_that_is_killed_loses_nothing_and_can_be_done_again(box):
    for mode in MODES:
        for n in range(300):
            box.write(f'd{n % 7}/{n}', 'old\n')
        task = start(box, mode, 'for n in 1 2 3; do echo task >>d$n/$n; done')
        for n in range(300):
            save(box, f'd{n % 7}/{n}', 'host\n')
        mine = {f'd{n}/{n}': 'old\ntask\n' for n in (1, 2, 3)}
        for n in range(12):
            process = box.spawn([PINFOLD, 'refresh', task])
            time.sleep(0.004 * n)
            process.send_signal(signal.SIGKILL)
            process.wait()
            now = wait_for(lambda: box.exec(task, '--', 'true').status == 0
                           and seen(box, task), 20, 'a sandbox that works')
            for name, text in now.items():
                check(text in ('/', 'old\n', 'host\n') or
                      mine.get(name) == text, f'{mode} {name} {text!r}')
        equal(set(conflicts(refresh(box, task, status=1))), set(mine), mode)
        equal(seen(box, task), have(box) | mine, mode)
        sh(box, task, 'for n in 8 9; do echo task >>d$((n - 7))/$n; done')
        end(box, task)
        r = promoted(box, task, status=1)
        equal({p for p, (w, _) in r.items() if w == 'conflict'}, set(mine))
        equal({p for p, (w, _) in r.items() if w == 'promoted'},
              {'d1/8', 'd2/9'}, mode)
        left = box.files_left_of(task, kept=(
            'upper', 'held', 'manifest', 'refreshed', 'hidden'))
        equal(left, [], mode)
        shutil.rmtree(box.source)
        os.mkdir(box.source)


@long_case
def no_command_begins_while_a_view_is_made_new(box):
    box.write('f', 'old\n')
    task = start(box, 'overlay')
    trace = f'{box.top}/trace'
    process = box.spawn(['strace', '-f', '-qq', '-o', trace, '-e',
                         'trace=pidfd_open,memfd_create,setns', '-e',
                         'inject=setns:delay_enter=8000000:when=1',
                         PINFOLD, 'refresh', task])
    wait_for(lambda: os.path.exists(trace) and os.path.getsize(trace), 20,
             'the beginning')
    time.sleep(1)
    r = box.exec(task, '--', 'true')
    r.expect(125, text='is being given the host\'s newer files')
    box.pinfold('refresh', task).expect(125, text='being refreshed already')
    check(process.wait(patient(60)) == 0, process.stderr.read())
    sh(box, task, 'true')


@case
def nothing_of_it_is_left_after_the_task(box):
    box.write('f', 'old\n')
    for mode in MODES:
        task = start(box, mode)
        save(box, 'f', 'host\n')
        refresh(box, task)
        end(box, task)
        if mode == 'copy':
            box.pinfold('discard', '--yes', task).expect(0)
        box.gone(task)


if __name__ == '__main__':
    sys.exit(main())

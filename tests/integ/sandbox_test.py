#!/usr/bin/python3
# limit: 300 s
"""A sandbox that stays: start, exec, ps, logs, stop and kill."""
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import box as b
from box import (Failure, PINFOLD, below, case, check, equal, find_below, main,
                 patient, processes_with, wait_for, within)


def tasks_of(box, *words):
    r = box.pinfold('ps', '--json', *words).expect(0)
    return {t['id']: t for t in json.loads(r.out)['tasks']}


def ended(box, task, seconds=20):
    """Waits until a sandbox has ended by itself."""
    wait_for(lambda: os.path.exists(f'{box.folder(task)}/task.json'), seconds,
             'the end of the sandbox')
    box.started.remove(task)
    return box.record(task)


@case
def start_prints_the_id_and_returns(box):
    r = box.pinfold('start').expect(0)
    task = r.out.decode().strip()
    box.started.append(task)
    check(re.fullmatch(r't-[a-z2-7]{16}', task), task)
    equal(r.err, b'')
    check(r.seconds < patient(10), r.seconds)
    within(tasks_of(box), task)
    equal(tasks_of(box)[task]['state'], 'running')
    box.kill(task).expect(0)
    check(task not in tasks_of(box), 'still listed')


@case
def start_in_json_names_the_task(box):
    r = box.pinfold('start', '--json').expect(0)
    task = json.loads(r.out)['id']
    box.started.append(task)
    box.kill(task).expect(0)
    box.gone(task)


@case
def exec_passes_arguments_status_and_streams(box):
    task = box.start()
    box.exec(task, '--', 'sh', '-c', 'exit 7').expect(7)
    box.exec(task, '--', 'sh', '-c', 'kill -9 $$').expect(137)
    box.exec(task, '--', 'no-such').expect(127, text='"no-such"')
    box.exec(task, '--', '/usr').expect(126)
    box.exec(task, '--', 'printf', '%s|', 'a b', '', 'x\n').expect(
        0, out=b'a b||x\n|')
    data = os.urandom(500000)
    box.exec(task, '--', 'cat', data=data).expect(0, out=data)
    r = box.exec(task, '--', 'sh', '-c', 'echo o; echo e >&2').expect(0)
    equal((r.out, r.err), (b'o\n', b'e\n'))
    box.exec(task, '-n', '--', 'cat').expect(0, out=b'')
    box.kill(task).expect(0)
    box.gone(task)


@case
def an_open_input_pipe_does_not_delay_an_exec(box):
    task = box.start()
    ours, theirs = os.pipe()
    r = box.exec(task, '--', 'true', stdin=ours, timeout=20).expect(0)
    check(r.seconds < patient(5), r.seconds)
    os.close(ours)
    os.close(theirs)
    box.kill(task)


@case
def execs_share_the_workspace_and_the_home(box):
    box.write('f', 'host\n')
    task = box.start()
    box.exec(task, '--', 'sh', '-c',
             'echo more >>f; echo h >~/h; echo t >/tmp/t').expect(0)
    box.exec(task, '--', 'sh', '-c', 'cat f ~/h /tmp/t').expect(
        0, out=b'host\nmore\nh\nt\n')
    r = box.exec(task, '--env', 'A=b', '--workdir', '/tmp', '--', 'sh', '-c',
                 'echo $A; pwd; echo $PINFOLD_TASK').expect(0)
    equal(r.out.decode().split(), ['b', '/tmp', task])
    equal(len(box.changes(task)['changes']), 1)
    box.kill(task).expect(0)
    box.gone(task, kept=('upper',))
    with open(f'{box.source}/f', encoding='ascii') as f:
        equal(f.read(), 'host\n')


@case
def the_environment_of_an_exec_is_that_of_a_run(box):
    names = []
    task = box.start('--env', 'FROM=start')
    for words in (['run', '--env', 'FROM=start'], ['exec', task]):
        r = box.pinfold(*words, '--', 'env', '-0').expect(0)
        found = dict(w.split(b'=', 1) for w in r.out.split(b'\0') if w)
        found.pop(b'PINFOLD_TASK')
        names.append(found)
    equal(names[1], names[0])
    box.kill(task)


@case
def twenty_execs_at_once_each_get_their_own_output_and_status(box):
    task = box.start()
    runs = [box.spawn([PINFOLD, 'exec', task, '--', 'sh', '-c',
                       f'sleep 0.3; echo {i} >f{i}; head -c 200000 /dev/zero | '
                       f'tr "\\0" "{chr(97 + i)}"; exit {i}'])
            for i in range(20)]
    threads, results = [], [None] * 20
    for i, process in enumerate(runs):
        def wait(i=i, process=process):
            results[i] = box.finish(process)
        threads.append(threading.Thread(target=wait))
        threads[-1].start()
    for thread in threads:
        thread.join()
    for i, r in enumerate(results):
        r.expect(i)
        equal(r.out, bytes([97 + i]) * 200000)
    r = box.exec(task, '--', 'sh', '-c', 'ls | wc -l').expect(0)
    equal(r.out.strip(), b'20')
    box.kill(task).expect(0)
    box.gone(task, kept=('upper',))


@case
def many_execs_one_after_the_other_use_nothing_up(box):
    """More than any table in keeper or init holds."""
    task = box.start()
    for _ in range(150):
        box.exec(task, '--', 'true').expect(0)
    r = box.exec(task, '--', 'sh', '-c', 'ls /proc | grep -c "^[0-9]"')
    check(int(r.expect(0).out) < 8, r)
    box.kill(task).expect(0)
    box.gone(task)


@case
def an_exec_returns_when_its_command_does_and_its_child_stays(box):
    task = box.start()
    r = box.exec(task, '--', 'sh', '-c', 'sleep 3200 & echo x').expect(0)
    equal(r.out, b'x\n')
    check(r.seconds < patient(5), r.seconds)
    r = box.pinfold('ps', task).expect(0)
    within(r.out, b'sleep')
    names = [p['name'] for p in tasks_of(box, task)[task]['processes']]
    within(names, 'sleep')
    equal(box.exec(task, '--', 'pgrep', '-c', 'sleep').expect(0).out, b'1\n')
    box.pinfold('stop', task).expect(0)
    box.started.remove(task)
    box.gone(task)
    equal(processes_with('sleep\x003200'), [])


@case
def a_killed_client_ends_its_exec_alone(box):
    task = box.start()
    other = box.spawn([PINFOLD, 'exec', task, '--', 'sh', '-c',
                       'echo ready; read x; echo "<$x>"'],
                      stdin=subprocess.PIPE)
    equal(other.stdout.readline(), b'ready\n')
    client = box.spawn([PINFOLD, 'exec', task, '--', 'sh', '-c',
                        'sleep 3201 & trap "" TERM HUP; echo ready; '
                        'sleep 3202; sleep 3202'])
    equal(client.stdout.readline(), b'ready\n')
    client.kill()
    client.wait(patient(20))
    wait_for(lambda: not processes_with('sleep\x003202') and
             not processes_with('sleep\x003201'), 10, 'the end of the exec')
    box.finish(other, b'y\n').expect(0, out=b'<y>\n')
    box.exec(task, '--', 'true').expect(0)
    box.kill(task).expect(0)
    box.gone(task)


@case
def signals_to_an_execs_client_reach_its_command(box):
    task = box.start()
    for name, status in (('TERM', 5), ('INT', 5), ('HUP', 5), ('USR1', 5)):
        client = box.spawn([PINFOLD, 'exec', task, '--', 'sh', '-c',
                            f'trap "echo {name}; exit 5" {name}; echo ready; '
                            'while :; do sleep 0.05; done'])
        equal(client.stdout.readline(), b'ready\n')
        client.send_signal(signal.Signals['SIG' + name])
        box.finish(client, timeout=20).expect(status, out=name.encode() + b'\n')
    box.exec(task, '--', 'true').expect(0)
    box.kill(task)


@case
def an_execs_time_out_ends_it_with_124_and_the_sandbox_stays(box):
    task = box.start()
    r = box.exec(task, '--timeout', '500ms', '--', 'sleep', '3203', timeout=30)
    r.expect(124)
    r = box.exec(task, '--timeout', '500ms', '--grace', '500ms', '--', 'sh',
                 '-c', 'trap "" TERM; while :; do sleep 0.05; done',
                 timeout=30)
    r.expect(124)
    check(r.seconds < patient(15), r.seconds)
    wait_for(lambda: not processes_with('sleep\x003203'), 10, 'its end')
    box.exec(task, '--', 'true').expect(0)
    box.exec(task, '--timeout', '1m', '--', 'sh', '-c', 'exit 9').expect(9)
    box.kill(task)


@case
def an_exec_in_json_is_one_object_in_the_last_line(box):
    task = box.start()
    r = box.exec(task, '--json', '--', 'sh', '-c', 'printf x >&2; exit 3')
    r.expect(3)
    report = r.json()
    equal((report['task'], report['exit_status'], report['reason'],
           report['argv']), (task, 3, 'exit',
                             ['sh', '-c', 'printf x >&2; exit 3']))
    path = f'{box.top}/e.json'
    r = box.exec(task, f'--json={path}', '--', 'sh', '-c', 'kill -9 $$')
    r.expect(137)
    with open(path, encoding='utf-8') as f:
        report = json.load(f)
    equal((report['signal'], report['reason']), (9, 'signal'))
    box.kill(task)


@case
def logs_print_what_a_command_wrote(box):
    task = box.start()
    box.exec(task, '--', 'sh', '-c', 'echo first; echo err >&2').expect(0)
    box.exec(task, '--', 'sh', '-c', 'echo second').expect(0)
    equal(box.pinfold('logs', task).expect(0).out, b'second\n')
    equal(sorted(box.pinfold('logs', task, '1').expect(0).out.splitlines()),
          [b'err', b'first'])
    box.pinfold('logs', task, '99').expect(125)
    box.kill(task)
    equal(box.pinfold('logs', task, '2').expect(0).out, b'second\n')


@case
def logs_follow_a_command_to_its_end(box):
    task = box.start()
    client = box.spawn([PINFOLD, 'exec', task, '--', 'sh', '-c',
                        'for i in 1 2 3 4 5; do echo line $i; sleep 0.3; done'])
    wait_for(lambda: os.path.exists(f'{box.folder(task)}/out.1'),
             what='the log')
    follow = box.spawn([PINFOLD, 'logs', '-f', task])
    equal(follow.stdout.readline(), b'line 1\n')
    r = box.finish(follow, timeout=20).expect(0)
    equal(r.out, b''.join(b'line %d\n' % i for i in range(2, 6)))
    box.finish(client).expect(0)
    box.kill(task)


@case
def logs_are_capped(box):
    task = box.start()
    box.exec(task, '--', 'head', '-c', '5000000', '/dev/zero').expect(0)
    size = os.path.getsize(f'{box.folder(task)}/out.1')
    check(100000 < size < 3000000, size)
    box.kill(task)


@case
def stop_lets_commands_end_themselves(box):
    task = box.start()
    client = box.spawn([PINFOLD, 'exec', task, '--', 'sh', '-c',
                        'trap "echo bye; exit 0" TERM; echo ready; '
                        'while :; do sleep 0.05; done'])
    equal(client.stdout.readline(), b'ready\n')
    box.pinfold('stop', task).expect(0)
    box.started.remove(task)
    r = box.finish(client, timeout=20)
    within(r.out, b'bye')
    equal(box.record(task)['reason'], 'stopped')
    return f'{box.gone(task):.2f} s'


@case
def stop_kills_after_the_grace(box):
    task = box.start()
    client = box.spawn([PINFOLD, 'exec', task, '--', 'sh', '-c',
                        'trap "" TERM; echo ready; '
                        'while :; do sleep 0.05; done'])
    equal(client.stdout.readline(), b'ready\n')
    r = box.pinfold('stop', '--grace', '500ms', task).expect(0)
    box.started.remove(task)
    check(0.4 < r.seconds < patient(10), r.seconds)
    check(box.finish(client, timeout=20).status != 0, 'status 0')
    box.gone(task)


def a_run(box, script):
    """(process, task) of a run that says the id and is at work."""
    process = box.spawn([PINFOLD, 'run', '--', 'sh', '-c',
                         f'trap {script} TERM; echo $PINFOLD_TASK; '
                         'while :; do sleep 0.05; done'])
    return process, process.stdout.readline().decode().strip()


@case
def stop_reaches_a_run_whose_command_gets_sigterm(box):
    process, task = a_run(box, '"echo bye >bye; exit 3"')
    equal(box.pinfold('stop', task).expect(0).text(), '')
    r = box.finish(process, timeout=20).expect(3)
    within(r.text(), 'stopped by another command')
    equal(box.record(task)['reason'], 'stopped')
    equal([c['path'] for c in box.changes(task)['changes']], ['bye'])
    box.gone(task, files=False)


@case
def stop_kills_a_run_after_the_grace(box):
    process, task = a_run(box, '""')
    r = box.pinfold('stop', '--grace', '500ms', task).expect(0)
    check(0.4 < r.seconds < patient(10), r.seconds)
    equal(r.text(), '')
    box.finish(process, timeout=20).expect(137)
    box.gone(task)


@case
def kill_ends_a_run_at_once(box):
    process, task = a_run(box, '"echo bye"')
    equal(box.pinfold('kill', task).expect(0).text(), '')
    r = box.finish(process, timeout=20).expect(137)
    check(b'bye' not in r.out, r)
    equal(box.record(task)['reason'], 'stopped')
    box.gone(task)


@case
def a_keeper_that_does_not_answer_a_stop_is_killed(box):
    if b.SITUATION != 'user':
        raise b.Skip('as an ordinary user alone: it waits for a quarter of a '
                     'minute')
    process, task = a_run(box, '""')
    for pid in b.ours():
        if b.command_of(pid) == 'pinfold-keeper':
            os.kill(pid, signal.SIGSTOP)
    r = box.pinfold('stop', '--grace', '1ms', task, timeout=60).expect(0)
    within(r.text(), 'does not answer, so it was killed')
    box.finish(process, timeout=20).expect(125)
    box.gone(task)


@case
def what_is_no_task_is_neither_stopped_nor_said_to_run(box):
    for verb in ('stop', 'kill'):
        for name in ('t-none', 't-' + 'a' * 16):
            r = box.pinfold(verb, name).expect(125, text='there is no task')
            check('runs' not in r.text(), r)
            r = box.pinfold(verb, '--json', name).expect(125)
            within(json.loads(r.out)['tasks'][0]['error'], 'there is no task')


@case
def exec_into_a_run_says_what_takes_commands(box):
    process, task = a_run(box, '"exit 0"')
    box.exec(task, '--', 'true').expect(125, text='pinfold start makes')
    box.pinfold('stop', task).expect(0)
    box.finish(process, timeout=20).expect(0)


@case
def a_working_directory_that_is_not_there_is_named(box):
    task = box.start()
    for name, shown in (('nosuch', f'{box.source}/nosuch'), ('/x y', '/x y')):
        box.exec('--workdir', name, task, '--', 'pwd').expect(
            125, text=f'working directory "{shown}" to run "pwd": No such')


@case
def kill_does_not_wait(box):
    task = box.start()
    client = box.spawn([PINFOLD, 'exec', task, '--', 'sh', '-c',
                        'trap "echo bye" TERM; echo ready; '
                        'while :; do sleep 0.05; done'])
    equal(client.stdout.readline(), b'ready\n')
    r = box.kill(task).expect(0)
    check(r.seconds < patient(10), r.seconds)
    r = box.finish(client, timeout=20)
    check(b'bye' not in r.out and r.status != 0, str(r))
    return f'{box.gone(task):.2f} s'


@case
def stop_and_kill_take_several_tasks(box):
    for verb in ('stop', 'kill'):
        tasks = [box.start() for _ in range(3)]
        box.pinfold(verb, *tasks).expect(0)
        for task in tasks:
            box.started.remove(task)
            box.gone(task)


@case
def stopping_what_is_not_there_is_an_error(box):
    task = box.start()
    box.kill(task).expect(0)
    for verb in ('stop', 'kill'):
        r = box.pinfold(verb, task).expect(125)
        within(r.text(), task)
        box.pinfold(verb, 't-aaaaaaaaaaaaaaaa').expect(125)
        box.pinfold(verb, '../../etc').expect(125)
        box.pinfold(verb).expect(125)


@case
def exec_into_a_dead_task_is_refused_at_once(box):
    task = box.start()
    box.kill(task).expect(0)
    r = box.exec(task, '--', 'true', timeout=20).expect(125)
    within(r.text(), task)
    box.exec('t-aaaaaaaaaaaaaaaa', '--', 'true').expect(125)
    box.exec(box.run('--json', '--', 'true').json()['id'], '--',
             'true').expect(125)


@case
def exec_into_a_task_whose_keeper_was_killed_is_refused_at_once(box):
    task = box.start()
    box.exec(task, '--', 'sh', '-c', 'setsid sleep 3204 &').expect(0)
    inner = wait_for(lambda: processes_with(f'PINFOLD_TASK={task}'),
                     what='its process')
    keeper = inner[0]
    while b.command_of(keeper) != 'pinfold-keeper':
        keeper = b.parents()[keeper]
    seen = below(keeper)
    os.kill(keeper, signal.SIGKILL)
    r = box.exec(task, '--', 'true', timeout=20).expect(125)
    within(r.text(), task)
    box.run('--', 'true').expect(0)
    box.started.remove(task)
    took = box.gone(task, seen)
    check(task not in tasks_of(box), 'listed as running')
    return f'{took:.2f} s'


@case
def a_sandbox_that_dies_ends_its_waiting_execs(box):
    task = box.start()
    clients = [box.spawn([PINFOLD, 'exec', task, '--', 'sh', '-c',
                          'echo ready; sleep 3205']) for _ in range(5)]
    for client in clients:
        equal(client.stdout.readline(), b'ready\n')
    box.kill(task).expect(0)
    for client in clients:
        check(box.finish(client, timeout=20).status != 0, 'status 0')


@case
def wall_ends_a_sandbox(box):
    task = box.start('--limit', 'wall=1s')
    r = box.exec(task, '--', 'sleep', '3206', timeout=30)
    r.expect(124, text='wall')
    record = ended(box, task)
    equal((record['reason'], record['limit']), ('limit', 'wall'))
    box.gone(task)


@case
def idle_ends_a_sandbox_that_nobody_uses(box):
    task = box.start('--limit', 'idle=1s')
    for _ in range(4):
        time.sleep(0.4)
        box.exec(task, '--', 'true').expect(0)
    record = ended(box, task)
    equal((record['reason'], record['limit']), ('limit', 'idle'))
    return f'{box.gone(task):.2f} s'


@case
def a_bomb_in_one_exec_ends_the_sandbox_and_names_the_limit(box):
    task = box.start('--limit', 'processes=100')
    r = box.exec(task, '--', 'python3', '-c',
                 'import os,time\nfor i in range(200):\n'
                 ' if os.fork()==0: time.sleep(1000)\ntime.sleep(1000)')
    r.expect(137, text='limit: processes')
    record = ended(box, task)
    equal(record['limit'], 'processes')
    box.gone(task)


@case
def a_sandbox_outlives_the_session_that_started_it(box):
    script = f'"$0" start; exec "$0" ps >/dev/null'
    process = box.spawn(['setsid', 'sh', '-c', script, PINFOLD])
    r = box.finish(process).expect(0)
    task = r.out.decode().split()[0]
    box.started.append(task)
    try:
        os.killpg(process.pid, signal.SIGHUP)
    except ProcessLookupError:
        pass
    time.sleep(0.3)
    box.exec(task, '--', 'echo', 'alive').expect(0, out=b'alive\n')
    box.kill(task).expect(0)


@case
def start_leaves_no_stream_of_the_caller_open(box):
    """A caller that reads to the end of its pipe is not kept waiting."""
    r = box.pinfold('start', timeout=20).expect(0)
    task = r.out.decode().strip()
    box.started.append(task)
    box.kill(task).expect(0)


@case
def ps_lists_ended_tasks_with_a_and_sizes(box):
    task = box.sh('head -c 100000 /dev/zero >f; exit 3',
                  '--json').json()['id']
    r = box.pinfold('ps', '-a').expect(0)
    line = [w for w in r.out.decode().splitlines() if w.startswith(task)]
    check(line and 'exit 3' in line[0] and 'KiB' in line[0].replace('K', 'KiB')
          if line else False, line)
    check(task not in box.pinfold('ps').expect(0).out.decode(), 'listed')
    entry = tasks_of(box, '-a')[task]
    equal((entry['state'], entry['exit_status']), ('ended', 3))
    check(entry['held_bytes'] >= 100000, entry)


@case
def an_id_may_be_cut_short_as_long_as_it_is_one_tasks(box):
    task = box.start()
    box.exec(task[:12], '--', 'echo', 'x').expect(0, out=b'x\n')
    box.kill(task).expect(0)


@case
def another_user_cannot_reach_a_sandbox(box):
    if not b.ROOT:
        raise b.Skip('only root can become another user')
    task = box.start()
    mode = os.stat('/run/pinfold').st_mode & 0o777
    equal(mode, 0o700)
    process = box.spawn(['setpriv', '--reuid=65534', '--regid=65534',
                         '--clear-groups', '--', PINFOLD, 'exec', task, '--',
                         'true'], cwd='/')
    r = box.finish(process)
    check(r.status in (125, 126, 127), str(r))
    box.kill(task).expect(0)


@case
def connecting_to_the_unspecified_address_is_no_refusal(box):
    script = '''
import socket
for family, host in (socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::"):
    server = socket.create_server((host, 0), family=family)
    socket.create_connection(server.getsockname()[:2])
    print("reached", host)
'''
    r = box.run('--json', '--', 'python3', '-c', script).expect(0)
    equal(r.out.split(b'\n')[:2], [b'reached 0.0.0.0', b'reached ::'])
    equal(r.json()['refusals'], [])


@case
def a_command_may_schedule_itself_and_its_children(box):
    """Pid 1 alone is taken from it."""
    box.sh('sleep 3014 & p=$!; renice -n 19 $p >/dev/null && '
           'taskset -p 1 $p >/dev/null && chrt -b -p 0 $p && '
           'ionice -c 3 -p $p && nice -n 3 true && taskset 1 true && '
           'ionice -c 3 true && chrt -i 0 true && renice -n 19 $$ '
           '>/dev/null && ! renice -n 19 1 2>/dev/null').expect(0)


if __name__ == '__main__':
    sys.exit(main())

#!/usr/bin/python3
# limit: 300 s
"""The end of a task, whatever dies first: nothing is left, nothing is late."""
import json
import os
import select
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import box as b
from box import (PINFOLD, ROOT, SITUATION, Skip, below, case, check, equal,
                 find_below, long_case, main, patient, processes_with,
                 tree_state, wait_for, within)

# What a task does that wants to live on: own sessions, grandchildren, a
# stopped process, ignored signals, an open file, a process without a parent.
STAYING = '''
    trap "" TERM HUP INT
    setsid sleep 3000 & (setsid sleep 3001 &) ; nohup sleep 3002 >/dev/null 2>&1 &
    sh -c 'kill -STOP $$; : stopped' &
    python3 -c 'import os,time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0: time.sleep(3003)
    os._exit(0)
os.wait()'
    exec 9>held
    echo x >changed
    echo $PINFOLD_TASK
'''


class Task:
    """A running task with all that wants to live on."""

    def __init__(self, box, *options, after='sleep 3004', **more):
        self.box = box
        self.process = box.spawn([PINFOLD, 'run', *options, '--', 'sh', '-c',
                                  STAYING + after], **more)
        line = self.process.stdout.readline().decode().strip()
        check(b.ID.fullmatch(line), f'{line!r} {self.process.poll()}')
        self.id = line
        if 'sleep' in after:
            wait_for(lambda: len(self.named('sleep')) >= 3, what='its sleepers')
        self.seen = below(self.process.pid)
        self.keeper = find_below(self.process.pid, 'pinfold-keeper')
        self.init = find_below(self.process.pid, 'pinfold-init')
        if 'sleep' in after:
            check(self.keeper and self.init, f'{self.seen}')

    def named(self, name):
        return [p for p in below(self.process.pid)
                if b.command_of(p) == name]

    def end(self, timeout=30):
        return self.box.finish(self.process, timeout=timeout)

    def gone(self, files=True):
        """Seconds until all is gone; the changes stay."""
        took = self.box.gone(self.id, self.seen, kept=('upper',), files=files)
        return f'{took:.2f} s'


def unchanged(box, before):
    equal(tree_state(box.source), before)


@case
def what_the_command_leaves_behind_ends_with_it(box):
    before = tree_state(box.source)
    task = Task(box, after='exit 3')
    task.end().expect(3)
    unchanged(box, before)
    return task.gone()


@case
def a_child_that_holds_the_output_open_does_not_delay_the_end(box):
    r = box.sh('sleep 3000 & setsid sleep 3001 & echo x; exit 4')
    r.expect(4, out=b'x\n')
    check(r.seconds < patient(10), r.seconds)
    equal(processes_with('sleep\x003000'), [])


@long_case
def after_a_time_out_nothing_is_written_late(box):
    """PEERS h: in the source and through every kind of child."""
    for how in ('(sleep 3; touch late) & wait',
                'setsid sh -c "sleep 3; touch late" & wait',
                'nohup sh -c "sleep 3; touch late" >/dev/null 2>&1 & wait',
                'trap "" TERM; (sleep 3; touch late) & wait; wait',
                'sh -c "(sleep 3; touch late) &" ; sleep 100'):
        r = box.sh(how, '--timeout', '1s', '--grace', '500ms', '--json')
        r.expect(124)
        task = r.json()['id']
        box.gone(task)
        check(b.ID.fullmatch(task) and 'upper' not in
              os.listdir(box.folder(task)), 'something was written')
    time.sleep(3.2)
    equal(os.listdir(box.source), [])


def dies(box, number, who, wait=True):
    before = tree_state(box.source)
    task = Task(box, '--json')
    pid = {'front end': task.process.pid, 'keeper': task.keeper,
           'init': task.init}[who]
    began = time.monotonic()
    os.kill(pid, number)
    r = task.end(30) if wait else None
    took = task.gone()
    unchanged(box, before)
    return task, r, f'{took}, returned after {time.monotonic() - began:.2f} s'


@case
def when_the_front_end_is_killed_all_is_gone_within_a_second(box):
    task, r, took = dies(box, signal.SIGKILL, 'front end')
    equal(r.status, -signal.SIGKILL)
    record = box.record(task.id)
    equal((record['state'], record['reason']), ('ended', 'stopped'))
    return took


@case
def when_the_keeper_is_killed_all_is_gone_and_it_is_said(box):
    task, r, took = dies(box, signal.SIGKILL, 'keeper')
    r.expect(125, text='keeper')
    within(r.text(), task.id)
    equal((r.json()['id'], r.json()['state']), (task.id, 'lost'))
    record = box.record(task.id)
    equal((record['state'], record['reason']), ('lost', 'lost'))
    equal(box.changes(task.id)['counts']['added'], 2)
    return took


@case
def when_init_is_killed_all_is_gone(box):
    task, r, took = dies(box, signal.SIGKILL, 'init')
    check(r.status != 0, str(r))
    equal(box.record(task.id)['state'], 'ended')
    return took


CONNECT = ("python3 -c 'import socket; s = socket.socket(); "
           's.connect_ex(("192.0.2.7", 80))\'; touch connected; ')


def waiter_of(task):
    """The keeper's child that waits until watch is needed."""
    names = {p: b.command_of(p) for p, parent in b.parents().items()
             if parent == task.keeper}
    waiting = [p for p, name in names.items() if name == 'pinfold-keeper']
    equal(len(waiting), 1, f'{names}')
    return waiting[0]


def is_confined(pid):
    with open(f'/proc/{pid}/status', encoding='utf-8') as f:
        status = f.read()
    return 'NoNewPrivs:\t1\n' in status and 'Seccomp:\t2\n' in status


@case
def watch_starts_with_the_first_call_that_is_notified(box):
    task = Task(box)
    waiter = waiter_of(task)
    wait_for(lambda: is_confined(waiter), what='its filter')
    check(not find_below(task.process.pid, 'pinfold-watch'), 'too early')
    task.process.terminate()
    task.end()
    task = Task(box, after=CONNECT + 'sleep 3007')
    watch = wait_for(lambda: find_below(task.process.pid, 'pinfold-watch'),
                     what='watch')
    wait_for(lambda: is_confined(watch), what='its filter')
    task.process.terminate()
    task.end()
    equal([n['object'] for n in box.record(task.id)['refusals']],
          ['192.0.2.7:80'])
    return task.gone()


@case
def when_the_watcher_is_killed_the_task_ends(box):
    for after in ('', CONNECT):
        task = Task(box, after=after + 'sleep 3004')
        watch = waiter_of(task) if not after else wait_for(
            lambda: find_below(task.process.pid, 'pinfold-watch'), what='it')
        os.kill(watch, signal.SIGKILL)
        r = task.end()
        check(r.status != 0, str(r))
        took = task.gone()
    return took


@case
def when_the_command_is_killed_from_outside_the_run_says_so(box):
    process = box.spawn([PINFOLD, 'run', '--json', '--', 'sleep', '3005'])
    pid = wait_for(lambda: find_below(process.pid, 'sleep'), what='it')
    seen = below(process.pid)
    os.kill(pid, signal.SIGKILL)
    r = box.finish(process).expect(137)
    equal(r.json()['signal'], 9)
    box.gone(r.json()['id'], seen)


@case
def when_front_end_and_keeper_are_killed_processes_and_mounts_are_gone(box):
    """Files and groups go when the next task starts."""
    before = tree_state(box.source)
    task = Task(box)
    os.kill(task.keeper, signal.SIGSTOP)
    os.kill(task.process.pid, signal.SIGKILL)
    os.kill(task.keeper, signal.SIGKILL)
    task.process.wait(patient(20))
    began = time.monotonic()
    wait_for(lambda: not [w for w in box.left_of(task.id, task.seen)
                          if not w.startswith('cgroup')], b.GONE_S,
             'the end of processes and mounts')
    took = time.monotonic() - began
    for _ in range(3):
        box.run('--', 'true').expect(0)
    wait_for(lambda: not box.files_left_of(task.id, kept=('upper',)) and
             not box.cgroups(task.id), 10, 'the removal of its files')
    record = box.record(task.id)
    equal((record['state'], record['reason']), ('lost', 'lost'))
    equal(box.changes(task.id)['counts']['added'], 2)
    unchanged(box, before)
    return f'{took:.2f} s'


@case
def a_stopped_keeper_does_not_survive_its_front_end(box):
    """Stopped and continued later, it finds its front end gone."""
    task = Task(box)
    os.kill(task.keeper, signal.SIGSTOP)
    os.kill(task.process.pid, signal.SIGKILL)
    task.process.wait(patient(20))
    os.kill(task.keeper, signal.SIGCONT)
    return task.gone()


@case
def killing_at_any_moment_of_the_start_leaves_nothing(box):
    """The front end is killed after 1, 3, 5 ... ms, before or after it has
    started anything."""
    count = 0
    for ms in range(1, 80, 3):
        before = set(os.listdir(f'{box.state}/tasks')) \
            if os.path.isdir(f'{box.state}/tasks') else set()
        process = box.spawn([PINFOLD, 'run', '--label', f'm={box.top}', '--',
                             'sleep', '3006'])
        time.sleep(ms / 1000)
        seen = below(process.pid)
        process.kill()
        process.wait(patient(20))
        wait_for(lambda: not [p for p, t in seen.items()
                              if b.start_time(p) == t], b.GONE_S,
                 f'the end after {ms} ms')
        count += len(seen)
        del before
    for task in processes_with('3006'):
        raise b.Failure(f'process {task} is left')
    for _ in range(5):
        box.run('--', 'true').expect(0)
    return f'{count} processes killed on the way'


@long_case
def a_signal_at_any_moment_of_the_start_ends_the_run(box):
    """Before pinfold has its handlers it dies by the signal itself."""
    statuses = set()
    for words in ([], ['-t']):
        for step in range(60):
            ms, number = step * 1.3, (15, 2, 1)[step % 3]
            process = box.spawn([PINFOLD, 'run', *words, '--', 'sleep',
                                 '3011'])
            time.sleep(ms / 1000)
            seen = below(process.pid)
            process.send_signal(number)
            r = box.finish(process, timeout=20)
            statuses.add(r.status)
            check(r.status in (-number, 128 + number),
                  f'signal {number} after {ms} ms: {r}')
            equal(r.err, b'', f'said, after {ms} ms')
            wait_for(lambda s=seen: not [p for p, t in s.items()
                                         if b.start_time(p) == t], b.GONE_S,
                     f'the end after {ms} ms')
    equal(processes_with('sleep\x003011'), [])
    return f'statuses {sorted(statuses)}'


@case
def a_signal_at_any_moment_of_an_exec_ends_it_alone(box):
    task = box.start()
    for step in range(40):
        ms, number = step * 0.6, (15, 2, 1)[step % 3]
        client = box.spawn([PINFOLD, 'exec', task, '--', 'sleep', '3013'])
        time.sleep(ms / 1000)
        client.send_signal(number)
        r = box.finish(client, timeout=20)
        check(r.status in (-number, 128 + number),
              f'signal {number} after {ms} ms: {r}')
    wait_for(lambda: not processes_with('sleep\x003013'), 20, 'their end')
    box.exec(task, '--', 'true').expect(0)
    box.kill(task)


@case
def a_signal_at_any_moment_of_a_start_leaves_no_sandbox_unnamed(box):
    for step in range(30):
        number = (15, 2, 1)[step % 3]
        process = box.spawn([PINFOLD, 'start'])
        time.sleep(step * 1.5 / 1000)
        process.send_signal(number)
        r = box.finish(process, timeout=20)
        task = r.out.decode().strip()
        check(r.status in (-number, 128 + number) if not task
              else r.status in (0, -number), r)
        if task:
            box.pinfold('kill', task).expect(0)
    running = [t['id'] for t in json.loads(
        box.pinfold('ps', '--json').expect(0).out)['tasks']
        if t['source'] == box.source]
    equal(running, [])


@case
def what_starts_in_shared_memory_makes_no_failing_call(box):
    """Up to its exec a keeper or init shares errno with who started it."""
    if not os.access('/usr/bin/strace', os.X_OK):
        raise Skip('strace is not installed')
    log = f'{box.top}/strace'
    box.finish(box.spawn(['strace', '-f', '-o', log, PINFOLD, 'run', '--',
                          'true'])).expect(0)
    calls, started = {}, []
    with open(log, encoding='utf-8', errors='replace') as f:
        for line in f:
            pid, text = line.rstrip('\n').split(None, 1)
            found = calls.setdefault(pid, [])
            if 'execve' in text and ('["pinfold-keeper"' in text or
                                     '["pinfold-init"]' in text):
                equal([t for t in found if ' = -1 ' in t], [], text[:60])
                started.append(pid)
            found.append(text)
    equal(len(started), 2)


@case
def sigterm_sigint_and_sighup_to_the_front_end_reach_the_command(box):
    script = 'for s in TERM INT HUP QUIT USR1 USR2; do ' \
        'trap "echo $s; exit 9" $s; done; echo ready; ' \
        'while :; do sleep 0.05; done'
    for name in ('TERM', 'INT', 'HUP', 'QUIT', 'USR1', 'USR2'):
        process = box.spawn([PINFOLD, 'run', '--', 'sh', '-c', script])
        equal(process.stdout.readline(), b'ready\n')
        process.send_signal(signal.Signals['SIG' + name])
        r = box.finish(process, timeout=20)
        r.expect(9, out=name.encode() + b'\n')


@case
def a_command_that_ends_by_the_signal_gives_128_plus_n(box):
    for name, status in (('TERM', 143), ('INT', 130), ('HUP', 129)):
        process = box.spawn([PINFOLD, 'run', '--', 'sh', '-c',
                             'echo ready; exec sleep 3007'])
        equal(process.stdout.readline(), b'ready\n')
        process.send_signal(signal.Signals['SIG' + name])
        box.finish(process, timeout=20).expect(status)


@case
def a_command_that_ignores_sigterm_is_killed_after_the_grace(box):
    process = box.spawn([PINFOLD, 'run', '--grace', '1s', '--', 'sh', '-c',
                         'trap "" TERM; echo ready; '
                         'while :; do sleep 0.05; done'])
    equal(process.stdout.readline(), b'ready\n')
    began = time.monotonic()
    process.terminate()
    r = box.finish(process, timeout=30)
    took = time.monotonic() - began
    equal(r.status, 137)
    check(0.9 < took < patient(12), f'took {took:.1f} s')
    return f'{took:.2f} s'


@case
def what_the_caller_ignores_stays_ignored(box):
    """nohup pinfold run: SIGHUP does not end it."""
    process = box.spawn(['nohup', PINFOLD, 'run', '--', 'sh', '-c',
                         'echo ready; sleep 1; echo done'])
    equal(process.stdout.readline(), b'ready\n')
    process.send_signal(signal.SIGHUP)
    box.finish(process, timeout=20).expect(0, out=b'done\n')


@case
def the_command_starts_with_default_signals_and_an_empty_mask(box):
    def careless():
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2,
                                                  signal.SIGTERM])
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    r = box.sh('grep -E "^Sig(Blk|Ign):" /proc/self/status',
               preexec_fn=careless).expect(0)
    equal(r.out.split()[1::2], [b'0' * 16] * 2)


@case
def a_task_of_500_processes_is_gone_within_a_second(box):
    script = 'import os,time\nfor i in range(500):\n' \
        ' if os.fork()==0:\n  os.setsid(); time.sleep(3008)\n' \
        'print(os.environ["PINFOLD_TASK"],flush=True)\ntime.sleep(3008)'
    process = box.spawn([PINFOLD, 'run', '--', 'python3', '-c', script])
    task = process.stdout.readline().decode().strip()
    seen = below(process.pid)
    check(len(seen) > 500, f'{len(seen)} processes')
    process.kill()
    process.wait(patient(20))
    return f'{box.gone(task, seen):.2f} s'


@case
def twenty_runs_at_once_leave_nothing(box):
    runs = [box.spawn([PINFOLD, 'run', '--json', '--', 'sh', '-c',
                       f'setsid sleep 3009 & echo {i} >f; cat f; exit {i}'])
            for i in range(20)]
    for i, process in enumerate(runs):
        r = box.finish(process, timeout=60).expect(i, out=b'%d\n' % i)
        box.gone(r.json()['id'], kept=('upper',))
    equal(os.listdir(box.source), [])
    equal(processes_with('sleep\x003009'), [])


@case
def a_closed_terminal_ends_the_task(box):
    """The session's leader goes and takes the terminal with it."""
    import pty
    master, slave = pty.openpty()
    script = 'echo $PINFOLD_TASK; trap "" HUP; setsid sleep 3010 & sleep 3010'
    process = box.spawn(['setsid', '--ctty', '--wait', PINFOLD, 'run',
                         '--grace', '500ms', '--', 'sh', '-c', script],
                        stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    text = b.read_until(master, b'\r\n')
    task = b.ID.search(text.decode())[0]
    wait_for(lambda: find_below(process.pid, 'sleep'), what='the command')
    seen = below(process.pid)
    os.close(master)
    process.wait(patient(30))
    return f'{box.gone(task, seen):.2f} s'


@case
def a_client_that_reads_slowly_gets_all_that_its_command_printed(box):
    """More than the pipes hold is still on its way when the command ends."""
    task = box.start()
    process = box.spawn([PINFOLD, 'exec', task, '--', 'seq', '1', '100000'])
    lines = 0
    while data := os.read(process.stdout.fileno(), 32768):
        lines += data.count(b'\n')
        time.sleep(0.02 if lines < 60000 else 0.2)
    equal(lines, 100000)
    equal(process.wait(patient(30)), 0)
    # What others print goes on without end, and delays nobody.
    r = box.exec(task, 'sh', '-c', 'yes & echo $!').expect(0)
    check(r.seconds < patient(10), f'{r.seconds:.1f} s')
    box.kill(task).expect(0)


@case
def a_client_that_reads_nothing_delays_no_stop(box):
    task = box.start()
    process = box.spawn([PINFOLD, 'exec', task, '--', 'yes'])
    wait_for(lambda: box.exec(task, 'pidof', 'yes').status == 0, what='yes')
    time.sleep(0.3)
    os.kill(process.pid, signal.SIGSTOP)
    r = box.pinfold('stop', task, timeout=30).expect(0)
    os.kill(process.pid, signal.SIGCONT)
    box.finish(process)
    check(process.returncode != 0, 'a cut output counts as whole')
    return f'{r.seconds:.2f} s'


# Stops the process with the next number but a few, as soon as there is one,
# and says what it was; then kills those before it.
HUNTING = '''
import os, signal, sys, time
me, ahead = os.getpid(), int(sys.argv[1])
print('ready', flush=True)
while True:
    try:
        os.kill(me + ahead, signal.SIGSTOP)
        break
    except OSError:
        pass
# Within execve it goes on to the end of that, and is a command then.
time.sleep(0.2)
name = open(f'/proc/{me + ahead}/comm').read().strip()
for pid in range(me + 1, me + ahead):
    os.kill(pid, signal.SIGKILL)
print(name, flush=True)
time.sleep(3011)
'''


def hunted(box, ahead, *options, **more):
    """An exec that another command has stopped before it was one."""
    for _ in range(8):
        task = box.start()
        hunter = box.spawn([PINFOLD, 'exec', task, '--', 'python3', '-c',
                            HUNTING, f'{ahead}'])
        equal(hunter.stdout.readline(), b'ready\n')
        process = box.spawn([PINFOLD, 'exec', *options, task, '--', 'true'],
                            **more)
        while process.poll() is None:
            if select.select([hunter.stdout], [], [], 0.1)[0]:
                break
        if select.select([hunter.stdout], [], [], 0)[0] and \
                hunter.stdout.readline() == b'pinfold-init\n':
            return task, process
        box.kill(task).expect(0)
    raise Skip('each was a command already when it was stopped')


@long_case
def a_command_stopped_at_its_start_does_not_hang_the_next(box):
    """It alone is ended, and its client is told why."""
    task, process = hunted(box, 1)
    for i in range(20):
        r = box.exec(task, 'echo', f'{i}', timeout=30)
        r.expect(0, out=b'%d\n' % i)
        check(r.seconds < patient(10), f'{r.seconds:.1f} s')
    check(process.poll() is None, 'it was not stopped')
    r = box.finish(process, timeout=150).expect(125, text='start in time')
    box.exec(task, 'true').expect(0)
    box.kill(task).expect(0)
    return f'{r.seconds:.1f} s'


@case
def a_command_stopped_at_its_start_ends_with_its_client(box):
    task, process = hunted(box, 1)
    process.kill()
    box.finish(process)
    wait_for(lambda: box.exec(task, 'sh', '-c', 'grep -l "^State:.T" '
                              '/proc/[0-9]*/status').status != 0,
             what='the end of the stopped child')
    box.exec(task, 'true').expect(0)
    box.kill(task).expect(0)


@case
def a_leader_killed_beside_its_stopped_command_holds_nobody(box):
    """Under a pty: what the leader's child has open must not be waited for."""
    import pty
    master, slave = pty.openpty()
    task, _ = hunted(box, 2, '-t', stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    r = box.exec(task, 'true', timeout=30).expect(0)
    box.kill(task).expect(0)
    os.close(master)
    check(r.seconds < patient(10), f'{r.seconds:.1f} s')


@case
def a_stopped_init_does_not_hold_the_keeper(box):
    """Its channel runs full; the task's time runs out all the same."""
    task = box.start('--limit', 'wall=5s')
    process = box.spawn([PINFOLD, 'exec', task, '--', 'sh', '-c',
                         'trap "" USR1; echo ready; sleep 3012 & wait'])
    equal(process.stdout.readline(), b'ready\n')
    init = b.parents()[processes_with(f'PINFOLD_TASK={task}')[0]]
    if b.command_of(init) != 'pinfold-init':
        init = b.parents()[init]
    os.kill(init, signal.SIGSTOP)
    for _ in range(1000):
        process.send_signal(signal.SIGUSR1)
        time.sleep(0.001)
    r = box.finish(process, timeout=50).expect(124, text='limit: wall')
    box.started.remove(task)
    return f'{r.seconds:.1f} s'


@case
def a_command_whose_first_thread_ended_does_not_outlive_its_client(box):
    """It looks like a zombie, and is none."""
    task = box.start()
    script = 'import ctypes,threading,time\n' \
        'threading.Thread(target=lambda: time.sleep(3013)).start()\n' \
        'print("ready",flush=True)\n' \
        'ctypes.CDLL(None).pthread_exit(None)'
    process = box.spawn([PINFOLD, 'exec', task, '--', 'sh', '-c',
                         'python3 -c "$0" & wait; sleep 3013', script])
    equal(process.stdout.readline(), b'ready\n')
    time.sleep(0.2)
    process.kill()
    box.finish(process)
    wait_for(lambda: box.exec(task, 'sh', '-c', 'grep -l python3 '
                              '/proc/[0-9]*/comm').status != 0, 10, 'its end')
    box.exec(task, 'true').expect(0)
    box.kill(task).expect(0)


# Stops itself, and has a child that lets it go on, 1,000 times.
STOPPING = '''
import os, signal, time
me = os.getpid()
if os.fork() == 0:
    os.setsid()
    for i in range(1000):
        os.kill(me, signal.SIGSTOP)
        time.sleep(0.001)
        os.kill(me, signal.SIGCONT)
        time.sleep(0.001)
    open('/tmp/done', 'w').close()
    os._exit(0)
while True:
    time.sleep(1)
'''


@case
def a_command_that_stops_again_and_again_does_not_hold_the_keeper(box):
    """Its client stops with it and reads no more of what it is told."""
    import pty
    task = box.start()
    master, slave = pty.openpty()
    process = box.spawn([PINFOLD, 'exec', '-t', task, '--', 'python3', '-c',
                         STOPPING], stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    wait_for(lambda: box.exec(task, 'test', '-e', '/tmp/done',
                              timeout=10).status == 0, 30, 'the stops')
    box.kill(task).expect(0)
    os.close(master)
    process.kill()
    process.wait(patient(30))


@case
def a_sandbox_whose_socket_was_removed_is_ended_all_the_same(box):
    for verb in (['stop'], ['kill'], ['kill', '--all']):
        task = box.start()
        box.exec(task, '--', 'touch', 'f').expect(0)
        box.spawn([PINFOLD, 'exec', task, '--', 'sleep', '3021'])
        for place in (box.sockets, '/run/pinfold'):
            if os.path.exists(f'{place}/{task}'):
                os.unlink(f'{place}/{task}')
        words = verb if verb[-1] == '--all' else [*verb, task]
        r = box.pinfold(*words).expect(0)
        equal(r.text(), '')
        box.started.remove(task)
        equal(processes_with(f'PINFOLD_TASK={task}'), [])
        check(task not in box.pinfold('ps').out.decode(), 'it is shown')
        equal([c['path'] for c in box.changes(task)['changes']], ['f'])


@case
def an_exec_whose_keeper_is_stopped_does_not_wait_for_ever(box):
    if SITUATION != 'user':
        raise Skip('as an ordinary user alone: it waits for half a minute')
    task = box.start()
    # It has a child of its name, which waits for the need of a watch.
    keepers = [pid for pid in b.ours() if b.command_of(pid) == 'pinfold-keeper']
    for pid in keepers:
        os.kill(pid, signal.SIGSTOP)
    try:
        r = box.exec(task, '--', 'true', timeout=60).expect(125, text=task)
        within(r.text(), 'pinfold kill')
    finally:
        for pid in keepers:
            os.kill(pid, signal.SIGCONT)
    box.exec(task, '--', 'true').expect(0)


if __name__ == '__main__':
    sys.exit(main())

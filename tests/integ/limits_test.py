#!/usr/bin/python3
# limit: 300 s
"""Limits: what each stops or refuses, that it is named, and that a neighbour
does not notice."""
import os
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from box import (PINFOLD, ROOT, Skip, case, check, command_of, equal, main,
                 parents, patient, processes_with, wait_for, within)


def stopped(box, limit, script, status=137, python=False, timeout=60, **more):
    """Runs script under limit, which must stop it and be named."""
    name = limit.split('=')[0]
    words = ['python3', '-c', script] if python else ['sh', '-c', script]
    r = box.run('--limit', limit, '--json', '--', *words, timeout=timeout,
                **more)
    r.expect(status, text=f'pinfold: limit: {name}')
    record = r.json()
    equal((record['limit'], record['reason'], record['exit_status']),
          (name, 'limit', status))
    enforced = [e for e in record['enforced'] if e['what'] == name]
    equal(len(enforced), 1, 'named once in enforced')
    check(enforced[0]['mechanism'], enforced)
    check(b'survived' not in r.out, str(r))
    took = box.gone(record['id'], kept=('upper',))
    return f'{r.seconds:.1f} s, {enforced[0]["mechanism"]}, ' \
        f'gone after {took:.2f} s'


@case
def cpu_time_stops_a_busy_loop(box):
    return stopped(box, 'cpu_time=1s', 'while :; do :; done')


@case
def cpu_time_counts_children_that_come_and_go(box):
    return stopped(box, 'cpu_time=1s',
                   'while :; do python3 -c "sum(range(3000000))"; done',
                   timeout=120)


@case
def cpu_time_counts_children_that_nobody_waits_for(box):
    """Who ignores SIGCHLD gets none of their time."""
    script = ('import os,signal,time\n'
              'signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n'
              'while True:\n'
              ' if os.fork() == 0:\n'
              '  while time.process_time() < 0.1: pass\n'
              '  os._exit(0)\n'
              ' time.sleep(0.12)\n')
    return stopped(box, 'cpu_time=1s', script, python=True, timeout=60)


@case
def memory_stops_who_takes_too_much(box):
    script = 'b=[]\nwhile True: b.append(bytearray(1<<20))'
    return stopped(box, 'memory=128MiB', script, python=True)


@case
def memory_counts_what_children_take_together(box):
    script = 'import os,time\nfor i in range(16):\n if os.fork()==0:\n' \
        '  b=bytearray(32<<20)\n  time.sleep(100)\ntime.sleep(100)'
    return stopped(box, 'memory=128MiB', script, python=True)


@case
def memory_counts_files_in_tmp_and_shared_memory(box):
    """Each of the three may hold half of the limit."""
    script = 'for d in /dev/shm /tmp ~; do head -c 48M /dev/zero >$d/f; done; ' \
        'sleep 10; echo survived'
    return stopped(box, 'memory=128MiB', script)


@case
def memory_below_the_limit_is_not_stopped(box):
    box.run('--limit', 'memory=256MiB', '--', 'python3', '-c',
            'b=bytearray(100<<20)').expect(0)


BOMB = 'import os,time\nwhile True:\n try: os.fork()\n except OSError: pass\n'


@case
def processes_stops_a_bomb_of_python(box):
    return stopped(box, 'processes=200', BOMB, python=True)


@case
def processes_holds_a_bomb_of_the_shell(box):
    """A shell gives up at its first refused fork: it may end before it is
    stopped, and then says itself what it met."""
    r = box.run('--limit', 'processes=200', '--json', '--', 'sh', '-c',
                'b() { b | b & b; }; b; sleep 100')
    if r.status != 137:
        r.expect(2, text='Cannot fork')
    else:
        r.expect(137, text='limit: processes')
    took = box.gone(r.json()['id'])
    return f'{r.seconds:.1f} s, gone after {took:.2f} s'


@case
def processes_stops_a_bomb_of_500_within_a_second_and_nothing_is_left(box):
    r = box.run('--limit', 'processes=500', '--json', '--', 'python3', '-c',
                'import os,time\nfor i in range(600):\n'
                ' if os.fork()==0: time.sleep(1000)\ntime.sleep(1000)')
    r.expect(137, text='limit: processes')
    took = box.gone(r.json()['id'])
    return f'{r.seconds:.1f} s, gone after {took:.2f} s'


@case
def processes_below_the_limit_are_not_stopped(box):
    box.sh('i=0; while [ $i -lt 40 ]; do sleep 1 & i=$((i+1)); done; wait',
           '--limit', 'processes=100').expect(0)


@case
def a_limit_of_processes_above_is_not_named_as_ours(box):
    """Forks are refused by a group around the caller's own."""
    if not ROOT:
        raise Skip('only root can make the group')
    top = next((d for d in ('/sys/fs/cgroup/pids', '/sys/fs/cgroup')
                if os.path.exists(f'{d}/cgroup.procs')), '')
    outer, inner = f'{top}/narrow', f'{top}/narrow/caller'

    def write(path, text):
        with open(path, 'w', encoding='ascii') as f:
            f.write(text)

    try:
        os.mkdir(outer)
        if not top.endswith('pids'):
            write(f'{outer}/cgroup.subtree_control', '+pids +memory')
        os.mkdir(inner)
        write(f'{outer}/pids.max', '25')
    except OSError as e:
        raise Skip(f'no group can be made: {e}') from None
    try:
        r = box.run('--limit', 'processes=100', '--json', '--', 'python3', '-c',
                    'import os,time\nn=0\nfor i in range(60):\n try:\n'
                    '  if os.fork()==0: time.sleep(1000)\n except OSError: n+=1'
                    '\ntime.sleep(0.5)\nprint(n > 0)', preexec_fn=lambda: write(
                        f'{inner}/cgroup.procs', '0'))
        r.expect(0, out=b'True\n')
        equal((r.json()['limit'], r.json()['reason']), (None, 'exit'))
    finally:
        wait_for(lambda: not os.path.isdir(inner) or not os.listdir(inner) or
                 remove(inner), what='the end of the inner group')
        os.rmdir(outer)


def remove(group):
    try:
        os.rmdir(group)
        return True
    except OSError:
        return False


@case
def a_neighbour_goes_on_during_a_bomb(box):
    """It makes a file and a process every fifth of a second all the time."""
    with open(f'{box.top}/ticks', 'wb') as out:
        neighbour = box.spawn(
            [PINFOLD, 'run', '--', 'sh', '-c', 'while sleep 0.1; do date +%s%N;'
             ' : >"$HOME/w" || echo F; done'], stdout=out)
    ticks = f'{box.top}/ticks'
    wait_for(lambda: os.path.getsize(ticks), 20, 'the neighbour')
    before = os.path.getsize(ticks)
    # Without a group of its own a bomb of 500 takes its time to grow.
    box.run('--limit', f'processes={500 if ROOT else 200}', '--timeout', '40s',
            '--', 'python3', '-c', BOMB).expect(137, text='limit: processes')
    box.run('--limit', 'memory=128MiB', '--', 'python3', '-c',
            'b=[]\nwhile True: b.append(bytearray(1<<20))').expect(137)
    wait_for(lambda: os.path.getsize(ticks) > before + 20, 20, 'more ticks')
    neighbour.terminate()
    box.finish(neighbour)
    with open(ticks, 'rb') as f:
        lines = f.read().split()
    check(b'F' not in lines, 'the neighbour could not write')
    times = [int(line) for line in lines]
    longest = max(b - a for a, b in zip(times, times[1:])) / 1e9
    check(longest < patient(5), f'the neighbour waited for {longest:.1f} s')
    return f'at most {longest:.2f} s between two ticks'


@case
def disk_stops_one_large_file_in_the_source(box):
    return stopped(box, 'disk=16MiB', 'cat /dev/zero >big; '
                   'sleep 5; echo survived')


@case
def disk_stops_many_files_in_the_source(box):
    return stopped(box, 'disk=16MiB', 'i=0; while [ $i -lt 600 ]; do '
                   'head -c 100000 /dev/zero >f$i; i=$((i+1)); done; sleep 10; '
                   'echo survived')


@case
def disk_stops_what_fills_tmp(box):
    return stopped(box, 'disk=16MiB', 'cat /dev/zero >/tmp/big; sleep 5; '
                   'echo survived')


@case
def disk_stops_what_fills_the_home(box):
    return stopped(box, 'disk=16MiB', 'cat /dev/zero >~/big; sleep 5; '
                   'echo survived')


@case
def disk_counts_a_granted_directory(box):
    os.mkdir(f'{box.top}/w')
    r = box.sh(f'cat /dev/zero >{box.top}/w/big; sleep 5; echo survived',
               '--write', f'{box.top}/w', '--limit', 'disk=16MiB', '--json')
    r.expect(137, text='limit: disk')


@case
def disk_counts_deleted_files_that_are_held_open(box):
    script = 'import os,time\nfor i in range(20):\n' \
        ' f=open("f","wb"); os.unlink("f"); os.dup(f.fileno());' \
        ' f.write(b"x"*(4<<20)); f.flush()\ntime.sleep(10)\nprint("survived")'
    return stopped(box, 'disk=16MiB', script, python=True)


# Files of half of the limit, deleted and held without a descriptor that shows.
HOLDING = '''
import ctypes, os, socket, time
libc = ctypes.CDLL(None)
a, b = socket.socketpair()
for i in range(8):
    fd = os.open("f", os.O_RDWR | os.O_CREAT)
    os.unlink("f")
    os.write(fd, bytes(8 << 20))
    HOLD
time.sleep(10)
print("survived")
'''


@case
def disk_counts_deleted_files_that_only_a_mapping_holds(box):
    return stopped(box, 'disk=16MiB', HOLDING.replace(
        'HOLD', 'libc.mmap(None, 8 << 20, 3, 1, fd, 0); os.close(fd)'),
        python=True)


@case
def disk_counts_mapped_deleted_files_written_at_once(box):
    """Faster than one look follows the other."""
    script = HOLDING.replace('range(8)', 'range(2)').replace(
        'bytes(8 << 20)', 'b').replace(
            'for', 'b = bytes(15 << 20)\ntime.sleep(0.5)\nfor').replace(
                'HOLD', 'libc.mmap(None, 15 << 20, 3, 1, fd, 0); os.close(fd)')
    return stopped(box, 'disk=16MiB', script, python=True)


@case
def disk_counts_deleted_files_that_wait_in_a_message(box):
    return stopped(box, 'disk=16MiB', HOLDING.replace(
        'HOLD', 'socket.send_fds(a, [b"x"], [fd]); os.close(fd)'), python=True)


@case
def disk_counts_deleted_files_of_a_process_that_hides_them(box):
    return stopped(box, 'disk=16MiB', HOLDING.replace('HOLD',
                                                      'libc.prctl(4, 0)'),
                   python=True)


@case
def disk_lets_mappings_and_messages_be(box):
    """Within the limit, and while somebody else writes to the same disk."""
    script = HOLDING.replace('range(8)', 'range(1)').replace(
        'HOLD', 'libc.mmap(None, 8 << 20, 3, 1, fd, 0); os.close(fd)').replace(
            'time.sleep(10)', 'print("ready", flush=True); time.sleep(3)')
    process = box.spawn([PINFOLD, 'run', '--limit', 'disk=32MiB', '--',
                         'python3', '-c', script])
    equal(process.stdout.readline(), b'ready\n')
    with open(f'{box.top}/other', 'wb') as f:
        f.write(bytes(128 << 20))
    box.finish(process).expect(0, out=b'survived\n')


@case
def a_look_at_open_files_leaves_no_memory_behind(box):
    """Init waits most of a sandbox's life: what it looked with is given back."""
    task = box.start('--limit', 'disk=1GiB')
    process = box.spawn([PINFOLD, 'exec', task, '--', 'python3', '-c',
                         'import os,time\nf=open("f","wb")\nos.unlink("f")\n'
                         'f.write(bytes(64<<20))\nf.flush()\nprint("x",flush='
                         'True)\ntime.sleep(1000)'])
    equal(process.stdout.readline(), b'x\n')
    time.sleep(2)
    init = parents()[processes_with(f'PINFOLD_TASK={task}')[0]]
    with open(f'/proc/{init}/status', encoding='ascii') as f:
        held = int(f.read().split('RssAnon:')[1].split()[0])
    check(command_of(init) == 'pinfold-init' and held < 100, f'{held} KiB')
    box.kill(task).expect(0)
    return f'{held} KiB'


@case
def disk_below_the_limit_is_not_stopped(box):
    r = box.sh('head -c 8M /dev/zero >f; rm f; head -c 8M /dev/zero >g; '
               'head -c 1M /dev/zero >/tmp/x', '--limit', 'disk=16MiB',
               '--json').expect(0)
    equal(r.json()['limit'], None)


@case
def inodes_stops_many_empty_files(box):
    return stopped(box, 'inodes=1000', 'i=0; while [ $i -lt 100000 ]; do '
                   ': >f$i; i=$((i+1)); done; sleep 10; echo survived')


@case
def inodes_stops_many_empty_files_in_tmp(box):
    return stopped(box, 'inodes=1000', 'cd /tmp; i=0; while [ $i -lt 2000 ]; '
                   'do : >f$i; i=$((i+1)); done 2>/dev/null; sleep 10; '
                   'echo survived')


@case
def inodes_counts_what_the_task_makes_and_not_what_its_sandbox_is_made_of(box):
    r = box.sh('cd /tmp; i=0; while [ $i -lt 50 ]; do : >f$i; i=$((i+1)); done',
               '--limit', 'inodes=64', '--json').expect(0)
    equal(r.json()['limit'], None)


@case
def open_files_refuses_and_does_not_stop(box):
    script = 'import errno\nf=[]\ntry:\n while True: f.append(open("/dev/null"))' \
        '\nexcept OSError as e: print(errno.errorcode[e.errno], len(f)<64)'
    r = box.run('--limit', 'open_files=64', '--json', '--', 'python3', '-c',
                script).expect(0, out=b'EMFILE True\n')
    equal(r.json()['limit'], None)


@case
def output_stops_who_prints_too_much(box):
    r = box.sh('yes; echo survived', '--limit', 'output=1MiB', '--json')
    r.expect(137, text='limit: output')
    equal(len(r.out), 1 << 20)
    equal(r.json()['usage']['output_bytes'], 1 << 20)
    r = box.sh('yes >&2', '--limit', 'output=1MiB')
    r.expect(137, text='limit: output')
    equal(r.err.count(b'y'), 1 << 19)


@case
def a_limit_that_stops_a_task_is_named_with_its_value_and_the_way_out(box):
    script = 'head -c 40M /dev/zero >f; sleep 60'
    within(box.sh(script, '--limit', 'disk=16MiB').expect(137).text(),
           'pinfold: limit: disk: the task was stopped over 16MiB; --limit '
           'disk=VALUE sets another\n')
    within(box.sh('sleep 60', '--limit', 'idle=1s').expect(137).text(),
           'pinfold: limit: idle: the task was stopped after 1s; --limit '
           'idle=VALUE sets another\n')
    within(box.sh('for i in $(seq 99); do : >$i; done; sleep 60', '--limit',
                  'inodes=64').expect(137).text(),
           'pinfold: limit: inodes: the task was stopped over 64; --limit '
           'inodes=VALUE sets another\n')


@case
def output_is_cut_at_the_byte_however_it_comes(box):
    """Of a command that is gone before the limit is seen, of both streams, on
    a terminal, with a limit of a few bytes."""
    r = box.sh('printf 0123456789', '--limit', 'output=4')
    r.expect(137, out=b'0123', text='limit: output')
    equal(box.sh('printf 0123', '--limit', 'output=4').expect(0).out, b'0123')
    r = box.sh('printf 012345; printf 012345 >&2', '--limit', 'output=8')
    r.expect(137, text='limit: output')
    said = r.err.decode().replace('pinfold: limit: output: the task was '
                                  'stopped at 8; --limit output=VALUE sets '
                                  'another\n', '').strip('\n')
    equal(len(r.out) + len(said), 8)
    r = box.sh('head -c 300000 /dev/zero | tr "\\0" x', '-t', '--limit',
               'output=100001')
    r.expect(137, text='limit: output')
    equal(len(r.out), 100001)
    task = box.start('--limit', 'output=1000')
    r = box.exec(task, '--', 'sh', '-c', 'head -c 900 /dev/zero').expect(0)
    equal(len(r.out), 900)
    r = box.exec(task, '--', 'sh', '-c', 'head -c 900 /dev/zero; sleep 60')
    r.expect(137, text='limit: output')
    equal(len(r.out), 100)


@case
def output_of_exactly_the_limit_is_not_stopped(box):
    r = box.sh('head -c 1048576 /dev/zero', '--limit', 'output=1MiB').expect(0)
    equal(len(r.out), 1 << 20)


@case
def wall_stops_a_sleeper_with_status_124(box):
    return stopped(box, 'wall=500ms', 'sleep 1000', status=124)


@case
def wall_lets_the_command_end_itself_within_the_grace(box):
    r = box.sh('trap "echo bye; exit 0" TERM; while :; do sleep 0.05; done',
               '--timeout', f'{patient(500):.0f}ms')
    r.expect(124, out=b'bye\n')
    r = box.sh('trap "" TERM; while :; do sleep 0.05; done', '--timeout',
               '500ms', '--grace', '500ms').expect(124)
    check(r.seconds < patient(20), r.seconds)


@case
def who_comes_after_a_limit_is_told_its_name(box):
    task = box.start('--limit', 'wall=1s')
    wait_for(lambda: task not in box.pinfold('ps').out.decode(), 20, 'its end')
    for words in (['exec', task, '--', 'true'], ['stop', task]):
        box.pinfold(*words).expect(
            125, text=f'{task} is not running: limit: wall stopped it')
    box.started.remove(task)


@case
def idle_stops_who_prints_and_takes_nothing(box):
    return stopped(box, 'idle=1s', 'sleep 1000')


@case
def idle_does_not_stop_who_goes_on_printing(box):
    box.sh('i=0; while [ $i -lt 15 ]; do echo $i; '
           f'sleep {patient(0.1)}; i=$((i+1)); done',
           '--limit', f'idle={patient(1000):.0f}ms').expect(0)


@case
def cpus_slows_a_command_down(box):
    """Two busy processes get half a CPU together, whatever else runs."""
    # What it took python to start is no part of it.
    script = 'import os,time\ns=sum(os.times()[:4])\n' \
        'p=os.fork()\nb=time.monotonic()\n' \
        'while time.monotonic()-b<2: pass\n' \
        'if p:\n os.wait()\n t=os.times()\n' \
        ' print((sum(t[:4])-s)/(time.monotonic()-b))'
    r = box.run('--limit', 'cpus=0.5', '--json', '--', 'python3', '-c',
                script).expect(0)
    mechanism = [e for e in r.json()['enforced'] if e['what'] == 'cpus'][0]
    if not mechanism['hard']:
        raise Skip(f'only {mechanism["mechanism"]} here')
    check(float(r.out) < 0.7, f'{r.out} CPUs by {mechanism["mechanism"]}')
    return f'{float(r.out):.2f} CPUs by {mechanism["mechanism"]}'


def group_of(record):
    """What the record says of where the task's control group came from."""
    found = [e for e in record['enforced'] if e['what'] == 'cgroup']
    if not found:
        raise Skip('a control group is at hand')
    return found[0]['mechanism'], found[0]['hard'], [
        e['mechanism'] for e in record['enforced']
        if e['what'] in ('memory', 'processes')]


@case
def without_a_group_at_hand_systemd_is_asked_for_one(box):
    """In a login session; elsewhere the record says why there is none."""
    record = box.run('--json', '--', 'true').expect(0).json()
    group, hard, limits = group_of(record)
    if os.path.exists(f'{box.run_dir}/bus'):
        equal((group, hard), ('a scope that systemd delegated', True))
        equal(limits, ['cgroup v2'] * 2)
        within(box.pinfold('doctor').out, b'in a scope that systemd delegates')
    else:
        within(group, 'none from systemd: ')
        check(not hard and 'watchdog over /proc' in limits, limits)
        within(box.pinfold('doctor').out, group[5:].encode())
    box.gone(record['id'])
    return group


@case
def a_sandbox_that_stays_does_not_hang_on_the_login(box):
    """A user's systemd ends with the last login, unless the user lingers."""
    task = box.start()
    box.kill(task).expect(0)
    group, hard, _ = group_of(box.record(task))
    if not os.path.exists(f'{box.run_dir}/bus'):
        raise Skip('no systemd of the user here')
    if os.path.exists(f'/var/lib/systemd/linger/{box.env["USER"]}'):
        equal((group, hard), ('a scope that systemd delegated', True))
    else:
        within(group, 'loginctl enable-linger')
        check(not hard, group)
    return group


@case
def a_bus_that_does_not_answer_delays_a_run_and_does_not_hold_it(box):
    path = f'{box.run_dir}/bus'
    if os.path.lexists(path):
        os.unlink(path)
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(path)
        s.listen(8)
        r = box.run('--json', '--', 'true').expect(0)
    group, hard, limits = group_of(r.json())
    within(group, 'none from systemd: ')
    check(not hard, limits)
    check(r.seconds < patient(20), r.seconds)
    return f'{r.seconds:.1f} s, {group}'


@case
def a_limit_of_none_is_no_limit(box):
    r = box.run('--limit', 'memory=none', '--limit', 'disk=none', '--limit',
                'processes=none', '--json', '--', 'true').expect(0)
    what = {e['what'] for e in r.json()['enforced']}
    check(not what & {'memory', 'disk', 'processes'}, what)


@case
def a_hard_limit_that_nothing_holds_is_refused(box):
    policy = f'{box.top}/p.yaml'
    with open(policy, 'w', encoding='ascii') as f:
        f.write('version: 1\nlimits: {enforce: hard, disk: 1GiB}\n')
    r = box.run('--policy', policy, '--', 'true').expect(125)
    within(r.text(), 'hard')


@case
def usage_is_in_the_record(box):
    r = box.run('--json', '--', 'python3', '-c',
                'import time\nb=b"x"*(50<<20)\nt=time.process_time()\n'
                'while time.process_time()-t<0.5: pass\nprint("y"*999)')
    usage = r.expect(0).json()['usage']
    check(40 << 20 < usage['memory_peak'] < 400 << 20, usage)
    check(400000 < usage['cpu_us'] < 30000000, usage)
    check(400000 < usage['wall_us'] < 60000000, usage)
    equal(usage['output_bytes'], 1000)


if __name__ == '__main__':
    sys.exit(main())

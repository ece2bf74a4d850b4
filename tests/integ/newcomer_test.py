#!/usr/bin/python3
"""What somebody meets who uses pinfold for the first time: hints, wording,
progress, what is passed on without being asked for."""
import json
import os
import shutil
import socket
import subprocess

from box import case, check, equal, main, within, Skip

INSIDE = '/usr/bin/python3'


# ---- names ----

LOOK_UP = '''
import socket
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
        check(r.seconds < 10, r.seconds)
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


if __name__ == '__main__':
    raise SystemExit(main())

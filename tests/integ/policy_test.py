#!/usr/bin/python3
"""pinfold policy check and show from outside, and the compiler's confinement."""
import json
import os
import struct
import subprocess
import tempfile
import time

PINFOLD = os.environ['PINFOLD']
COMPILER = os.path.join(os.path.dirname(PINFOLD), 'pinfold-policy')
TOP = os.environ.get('PINFOLD_TOP', '.')
PATIENCE = float(os.environ.get('PINFOLD_TEST_PATIENCE', '1'))
DIR = tempfile.mkdtemp()
ENV = {'PATH': '/usr/bin:/bin', 'HOME': DIR, 'LANG': 'C.UTF-8'}
failures = 0


def case(sentence):
    def wrap(fn):
        global failures
        try:
            why = fn()
        except Exception as e:
            why = f'{type(e).__name__}: {e}'
        if why == 'skip':
            print(f'skip - {sentence}: not available here')
        elif why:
            failures += 1
            print(f'not ok - {sentence}: {why}'.replace('\n', ' '))
        else:
            print(f'ok - {sentence}')
    return wrap


def write(name, text):
    path = os.path.join(DIR, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'wb') as f:
        f.write(text if isinstance(text, bytes) else text.encode())
    return path


def pinfold(*args, env=ENV):
    return subprocess.run([PINFOLD, *args], capture_output=True, cwd=DIR,
                          env=env, timeout=60 * PATIENCE)


def expect(r, status, out=b'', err=b''):
    if r.returncode != status:
        return f'status {r.returncode}, {r.stderr!r}'
    if out not in r.stdout:
        return f'no {out!r} in {r.stdout!r}'
    if err not in r.stderr:
        return f'no {err!r} in {r.stderr!r}'
    return None


@case('a good policy is checked with status 0 and its digest')
def _():
    write('good.yaml', 'version: 1\nlimits: {wall: 5m}\n')
    return expect(pinfold('policy', 'check', 'good.yaml'), 0,
                  b'good.yaml is a policy, digest sha256:')


@case('every fault of a policy is named with line and column, status 1')
def _():
    write('bad.yaml', 'version: 1\nteir: auto\nnetwork: {}\n'
                      'limits: {wall: 5}\n')
    r = pinfold('policy', 'check', 'bad.yaml')
    return (expect(r, 1, b'', b'bad.yaml:2:1: unknown field "teir"; '
                              b'did you mean tier?\n') or
            expect(r, 1, b'', b"bad.yaml:3:1: section 'network' is not ") or
            expect(r, 1, b'', b'bad.yaml:4:16: limits.wall: '))


@case('what cannot run here or be read there is a fault with its place')
def _():
    for text, fault in (
            ('tier: microvm\n', '2:7: tier: microvm is not supported'),
            ('classify:\n  data: secret\n  code: untrusted\n  impact: high\n',
             '3:9: classify: this asks for tier microvm'),
            ('limits: {wall: 1s}\nextends: ./no.yaml\n',
             '3:10: extends: policy "./no.yaml": No such file'),
            ('extends: bad.yaml\n', '2:10: extends: policy "bad.yaml": '
             'extends itself in a circle')):
        write('bad.yaml', 'version: 1\n' + text)
        r = pinfold('policy', 'check', 'bad.yaml')
        bad = expect(r, 1, b'', f'bad.yaml:{fault}'.encode())
        if bad:
            return bad
        r = pinfold('policy', 'check', '--json', 'bad.yaml')
        if r.returncode != 1 or not json.loads(r.stdout)['problems']:
            return f'{text!r}: {r}'
    write('bad.yaml', 'version: 1\nteir: auto\nnetwork: {}\n'
                      'limits: {wall: 5}\n')
    return None


@case('one limit is not set twice')
def _():
    return expect(pinfold('run', '--source', 'none', '--timeout', '1h',
                          '--limit', 'wall=1s', '--', 'true'), 125, b'',
                  b'--timeout and --limit wall set the same limit')


@case('the same faults come as JSON')
def _():
    r = pinfold('policy', 'check', '--json', 'bad.yaml')
    report = json.loads(r.stdout)
    if r.returncode != 1 or report['valid'] or len(report['problems']) != 3:
        return repr(report)


@case('a file that is not there, or of 10 MB, is refused with status 125')
def _():
    write('big.yaml', b'version: 1\n' + b'# 3456789\n' * 1000000)
    return (expect(pinfold('policy', 'check', 'none.yaml'), 125, b'',
                   b'No such file') or
            expect(pinfold('policy', 'check', 'big.yaml'), 125, b'',
                   b'larger than 1 MiB') or
            expect(pinfold('run', '--policy', 'big.yaml', '--', 'true'), 125,
                   b'', b'larger than 1 MiB'))


@case('show prints what holds each rule, the implicit ones included')
def _():
    r = pinfold('policy', 'show')
    for part in (b'default deny', b'Landlock', b'seccomp', b'capabilities',
                 b'env.pass', b'limits.memory', b'least tier'):
        why = expect(r, 0, part)
        if why:
            return why
    if b'\x1b' in r.stdout:
        return 'colours where there is no terminal'


@case('show --json holds the snapshot with the digest that it says')
def _():
    import hashlib
    r = pinfold('policy', 'show', 'good.yaml', '--json')
    report = json.loads(r.stdout)
    text = json.dumps(report['policy'], sort_keys=True, ensure_ascii=False,
                      separators=(',', ':'))
    if hashlib.sha256(text.encode()).hexdigest() != report['digest']:
        return 'digest differs'
    if not any(row['rule'] == 'limits.wall' and row['permits'].startswith('5m')
               for row in report['rows']):
        return 'no row of limits.wall'


@case('a snapshot is itself a policy of the same digest')
def _():
    report = json.loads(pinfold('policy', 'show', 'good.yaml',
                                '--json').stdout)
    write('snapshot.json', json.dumps(report['policy']))
    r = pinfold('policy', 'check', 'snapshot.json')
    return expect(r, 0, report['digest'].encode())


@case('--json=FILE writes the report there')
def _():
    why = expect(pinfold('policy', 'show', '--json=out.json'), 0)
    with open(os.path.join(DIR, 'out.json')) as f:
        json.load(f)
    return why


@case("the user's own policy is in force without being named")
def _():
    write('.config/pinfold/policy.yaml', 'version: 1\nlimits: {wall: 7m}\n')
    r = pinfold('policy', 'show')
    os.unlink(os.path.join(DIR, '.config/pinfold/policy.yaml'))
    return expect(r, 0, b'wall: 7m')


@case('a policy in the source is not read')
def _():
    write('pinfold.yaml', 'version: 1\nlimits: {wall: 8m}\n')
    write('.pinfold/policy.yaml', 'version: 1\nlimits: {wall: 8m}\n')
    r = pinfold('policy', 'show')
    return 'it was read' if b'8m' in r.stdout else expect(r, 0, b'wall: none')


@case('escape sequences of a policy never reach the terminal')
def _():
    write('esc.yaml', 'version: 1\n"\\e[2J": 1\ntier: "\\e]0;x\\a"\n')
    r = pinfold('policy', 'check', 'esc.yaml')
    return 'they did' if b'\x1b' in r.stderr else expect(r, 1)


@case('words that are not known are refused with a suggestion')
def _():
    return (expect(pinfold('policy', 'chek', 'x'), 125, b'', b'check?') or
            expect(pinfold('policy', 'check'), 125, b'', b'needs a file'))


@case('the schema in the tree accepts and refuses as the loader does')
def _():
    try:
        import jsonschema
        import yaml
    except ImportError:
        return 'skip'
    with open(os.path.join(TOP, 'schema/policy.json')) as f:
        schema = json.load(f)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    for name, good in (('good.yaml', True), ('bad.yaml', False),
                       ('snapshot.json', True)):
        with open(os.path.join(DIR, name)) as f:
            if validator.is_valid(yaml.safe_load(f)) != good:
                return name


def question(text):
    name = b'q.yaml'
    return (struct.pack('<IIII', 0, 1, len(name), len(text)) + name + b'\0' +
            text + b'\0')


@case('the compiler is confined before it reads the first byte')
def _():
    p = subprocess.Popen([COMPILER], stdin=subprocess.PIPE, env={},
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    until = time.monotonic() + 10 * PATIENCE
    status = {}
    while time.monotonic() < until and status.get('Seccomp') != '2':
        with open(f'/proc/{p.pid}/status') as f:
            status = dict(line.rstrip('\n').split(':\t', 1)
                          for line in f if ':\t' in line)
    if status.get('Seccomp') != '2' or status.get('NoNewPrivs') != '1':
        p.kill()
        return f'Seccomp {status.get("Seccomp")}'
    out, err = p.communicate(question(b'version: 1\n'), timeout=20 * PATIENCE)
    answer = json.loads(out)
    if json.loads(answer['policy'])['version'] != 1 or err:
        return repr(answer)


@case('the compiler ends on anything that is no question')
def _():
    for bad in (b'', b'x', question(b'version: 1')[:-1],
                question(b'version: 1') + b'\0', b'\xff' * 100):
        r = subprocess.run([COMPILER], input=bad, capture_output=True, env={},
                           timeout=20 * PATIENCE)
        if r.returncode != 1 or r.stdout or b'cannot compile' not in r.stderr:
            return repr((bad, r))


@case('deep, wide and long policies end within their limits')
def _():
    for text in (b'[' * 1000000, b'{a: ' * 200000, b'- ' * 500000,
                 b'? ' * 500000, b'a: ' * 300000, b'"' + b'a' * 1000000,
                 b'- a\n' * 250000, b'version: 1\nfiles: {read: [' +
                 b'/a,' * 300000 + b']}', b'a: |\n' + b' b\n' * 300000,
                 b'&a ' * 300000, b'!a ' * 300000, b'#' * 1000000,
                 b'\n' * 1000000, b'a\n\n' * 300000, b"'" * 999999,
                 b'? a\n' * 250000, b'{"a":' * 200000, b'[a,' * 300000,
                 b'a: b\n' * 200000, b'[]' * 500000, b'{}\n' * 300000):
        start = time.monotonic()
        r = subprocess.run([COMPILER], input=question(text),
                           capture_output=True, env={}, timeout=60 * PATIENCE)
        took = time.monotonic() - start
        if r.returncode != 0 or b'problems' not in r.stdout or took > 5 * PATIENCE:
            return f'{text[:20]!r}: {r.returncode} after {took:.1f} s'


subprocess.run(['rm', '-rf', DIR], check=False)
raise SystemExit(failures > 0)

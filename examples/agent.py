"""A scripted agent: does what a coding agent does, always the same way.

It reads the code, runs the tests, fixes the fault, runs the tests again. Its
working directory is the repository.
"""
import os
import re
import subprocess
import sys

FILE = 'fairshare/split.py'
FAULT = '    return [amount * weight // sum(weights) for weight in weights]\n'
REPAIR = '''\
    shares = [amount * weight // sum(weights) for weight in weights]
    for i in range(amount - sum(shares)):
        shares[i] += 1
    return shares
'''


def say(text):
    print(f'agent: {text}', flush=True)


def git(*args):
    env = os.environ | {'GIT_OPTIONAL_LOCKS': '0', 'GIT_PAGER': 'cat'}
    return subprocess.run(['git', *args], check=True, env=env, text=True,
                          stdout=subprocess.PIPE).stdout


def run_tests():
    """(passed, summary); what the tests print themselves goes through."""
    done = subprocess.run([sys.executable, '-B', '-m', 'unittest'],
                          check=False, stderr=subprocess.PIPE, text=True)
    failed = re.findall(r'^FAIL: (\w+)', done.stderr, re.M)
    count = re.search(r'^Ran (\d+) tests?', done.stderr, re.M)
    if not count:
        sys.exit(f'agent: the tests do not run:\n{done.stderr}')
    return done.returncode == 0, (f'{count[1]} tests, {len(failed)} failed '
                                  + ' '.join(failed)).strip()


def main():
    say('history: ' + git('log', '-1', '--format=%h %s').strip())
    with open(FILE, encoding='utf-8') as f:
        code = f.read()
    say(f'read {FILE}: {len(code.splitlines())} lines')
    passed, summary = run_tests()
    say(summary)
    if passed:
        sys.exit('agent: nothing to do')
    if FAULT not in code:
        sys.exit('agent: this is not the fault that I know')
    with open(FILE, 'w', encoding='utf-8') as f:
        f.write(code.replace(FAULT, REPAIR))
    say(f'fixed {FILE}:')
    print(git('diff', '--no-color', '-U0', '--', FILE), end='', flush=True)
    passed, summary = run_tests()
    say(summary)
    return 0 if passed else 1


if __name__ == '__main__':
    sys.exit(main())

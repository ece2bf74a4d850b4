#!/bin/sh
# tools/check-layers and tools/check-size on trees with known faults.
set -u

failed=0
mkdir -p "$TMPDIR/tree" && cd "$TMPDIR/tree" || exit 1
mkdir -p src/base src/policy src/confine src/task tests tools
cp "$PINFOLD_TOP"/tools/check-* tools/

# says SENTENCE CHECK LINE: the check fails and prints LINE.
says() {
	if out=$("tools/$2" 2>&1); then
		echo "not ok - $1: it passes"
		failed=1
	elif echo "$out" | grep -qxF "$3"; then
		echo "ok - $1"
	else
		echo "not ok - $1: $out"
		failed=1
	fi
}

passes() {
	if out=$("tools/$2" 2>&1); then
		echo "ok - $1"
	else
		echo "not ok - $1: $out"
		failed=1
	fi
}

# A function of so many lines, or one with so many branches.
long() {
	echo 'int f(void)'
	echo '{'
	yes '	g();' | head -n $(($1 - 4))
	echo '	return 0;'
	echo '}'
}

branchy() {
	echo 'int f(int x)'
	echo '{'
	yes '	if (x) x++;' | head -n $(($1 - 1))
	echo '	return x;'
	echo '}'
}

include() {
	printf '#include <stdio.h>\n\n#include "%s"\n' "$1"
}

echo '/* */' >src/base/a.h
include base/a.h >src/task/t.c
passes 'a higher folder may include a lower one' check-layers
include task/t.h >src/base/a.c
says 'a lower folder must not include a higher one' check-layers \
	'src/base/a.c:3: base must not include task'
include task/t.h >src/base/a.h
says 'headers are held to the same order' check-layers \
	'src/base/a.h:3: base must not include task'
rm src/base/a.c
echo '/* */' >src/base/a.h
include a.h >src/task/t.c
says 'an include names its folder' check-layers \
	'src/task/t.c:3: "a.h" does not begin with a folder of src/'
include vault/v.h >src/confine/c.c
says 'folders of one rank do not include each other' check-layers \
	'src/confine/c.c:3: confine must not include vault'
include ipc/i.h >src/policy/p.c
says 'policy sees base and schema alone' check-layers \
	'src/policy/p.c:3: policy is pure and must not include ipc'
mkdir src/helpers
echo >src/helpers/h.c
says 'a folder without a rank is refused' check-layers \
	'src/helpers/h.c:1: no such folder in the order of tools/check-layers'
rm -r src
mkdir src

long 59 >src/a.c
branchy 11 >src/b.c
: >tools/size-exceptions.txt
passes 'what is at the limits passes' check-size
long 60 >src/a.c
says 'a function of 60 lines is too long' check-size \
	'src/a.c: f: lines 60: at most 59'
branchy 12 >src/b.c
says 'a complexity of 12 is too much' check-size \
	'src/b.c: f: complexity 12: at most 11'
printf 'src/a.c f lines 60\nsrc/b.c f complexity 12\n' \
	>tools/size-exceptions.txt
passes 'an exception permits so much and no more' check-size
long 61 >src/a.c
says 'beyond its exception code fails' check-size \
	'src/a.c: f: lines 61: more than its exception, 60'
long 10 >src/a.c
says 'an exception that is not needed fails' check-size \
	'src/a.c: f: lines 10: needs no exception any more'
rm src/a.c
says 'an exception for code that is gone fails' check-size \
	'tools/size-exceptions.txt: src/a.c f lines: no such code'
echo 'src/b.c f complexity 16' >tools/size-exceptions.txt
says 'no exception permits a complexity beyond 15' check-size \
	'tools/size-exceptions.txt: src/b.c: f: at most 15'
: >tools/size-exceptions.txt
rm src/b.c
yes '/* */' | head -n 700 >src/c.h
says 'a file of 700 lines is too long' check-size \
	'src/c.h: lines 700: at most 699'
exit $failed

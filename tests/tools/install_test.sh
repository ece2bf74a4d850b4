#!/bin/sh
# make install and uninstall under a DESTDIR.
set -u

root=$TMPDIR/root
failed=0
check() {
	sentence=$1
	shift
	if "$@" >"$TMPDIR/out" 2>&1; then
		echo "ok - $sentence"
	else
		echo "not ok - $sentence: $(tail -n 3 "$TMPDIR/out")"
		failed=1
	fi
}

has() {
	[ "$(stat -c %a "$root$1")" = "$2" ]
}

no_program_is_missing() {
	for program in "$PINFOLD_BUILD"/bin/pinfold-*; do
		has "/usr/lib/pinfold/${program##*/}" 755 || return 1
	done
}

a_page_for_each_command() {
	pages=$(ls "$root/usr/share/man/man1" | wc -l)
	verbs=$(sed -n "s/^_pinfold_verbs='\(.*\)'/\1/p" \
		"$root/usr/share/bash-completion/completions/pinfold" | wc -w)
	[ "$pages" -eq $((verbs + 1)) ] &&
		gzip -t "$root"/usr/share/man/man?/*.gz
}

nothing_is_left() {
	[ -z "$(find "$root" ! -type d)" ] && [ ! -e "$root/usr/lib/pinfold" ] &&
		[ ! -e "$root/usr/share/pinfold" ]
}

# Units of the system and of each user, which systemd understands.
units_are_right() {
	for kind in system user; do
		has "/usr/lib/systemd/$kind/pinfold-clean.service" 644 &&
			has "/usr/lib/systemd/$kind/pinfold-clean.timer" 644 ||
			return 1
	done
	mkdir -p "$TMPDIR/units" || return 1
	for unit in service timer; do
		sed "s|=/usr/bin/|=$root/usr/bin/|" \
			"$root/usr/lib/systemd/system/pinfold-clean.$unit" \
			>"$TMPDIR/units/pinfold-clean.$unit" || return 1
	done
	# It says what it does not understand, and on some versions ends with 0.
	systemd-analyze verify --man=no "$TMPDIR"/units/pinfold-clean.* \
		>"$TMPDIR/verify" 2>&1 || { cat "$TMPDIR/verify"; return 1; }
	! grep "$TMPDIR/units" "$TMPDIR/verify"
}

a_home_has_units_of_its_user() {
	DESTDIR=$TMPDIR/home PREFIX=/home/ada/.local BUILD=$PINFOLD_BUILD \
		"$PINFOLD_TOP/tools/install" || return 1
	grep -qx 'ExecStart=/home/ada/.local/bin/pinfold rm --older-than 30d' \
		"$TMPDIR/home/home/ada/.local/share/systemd/user/pinfold-clean.service" &&
		[ ! -e "$TMPDIR/home/home/ada/.local/lib/systemd" ]
}

install() {
	DESTDIR=$root PREFIX=/usr BUILD=$PINFOLD_BUILD \
		"$PINFOLD_TOP/tools/install" "$@"
}

check 'install succeeds under a DESTDIR' install
check 'the program lies in bin' has /usr/bin/pinfold 755
check 'its other programs lie in lib/pinfold' no_program_is_missing
check 'the installed program runs' "$root/usr/bin/pinfold" --version
check 'every command has a manual page' a_page_for_each_command
check 'the policy has a manual page' has /usr/share/man/man5/pinfold-policy.5.gz 644
check 'the schema of policies is installed' \
	has /usr/share/pinfold/schema/policy.json 644
check 'the units of systemd are installed and right' units_are_right
check 'what is installed below a home has units of its user' \
	a_home_has_units_of_its_user
check 'the licence is installed' has /usr/share/doc/pinfold/copyright 644
# As after make clean.
check 'uninstall needs nothing that is built' \
	env DESTDIR="$root" PREFIX=/usr BUILD="$TMPDIR/none" \
	"$PINFOLD_TOP/tools/install" --remove
check 'uninstall leaves nothing of its own' nothing_is_left

# What an ordinary user does.
below_a_home() {
	DESTDIR='' PREFIX=$TMPDIR/home BUILD=$PINFOLD_BUILD \
		"$PINFOLD_TOP/tools/install" "$@"
}

runs_from_home() {
	"$TMPDIR/home/bin/pinfold" doctor |
		grep -q "programs *$TMPDIR/home/lib/pinfold"
}

if [ -w /etc ]; then
	echo 'skip - install below a home needs no root: /etc can be written'
else
	check 'install below a home needs no root' below_a_home
	check 'what lies below a home runs' runs_from_home
	check 'uninstall below a home needs no root' below_a_home --remove
fi
exit $failed

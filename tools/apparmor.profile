# Lets pinfold make user namespaces where AppArmor otherwise forbids them to
# ordinary users (Ubuntu 24.04, Debian kernels with the same setting). It
# confines nothing: what a sandboxed command may do is pinfold's own matter.
abi <abi/4.0>,

include <tunables/global>

profile pinfold @PREFIX@/{bin/pinfold,lib/pinfold/pinfold-*} flags=(unconfined) {
	userns,

	include if exists <local/pinfold>
}

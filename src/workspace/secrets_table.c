/*
 * The built-in list of files that hold secrets: names alone, of tools that write
 * tokens and keys into a project, and of what people keep there.
 */
#include "workspace/secrets.h"

#include "base/glob.h"

#include <limits.h>
#include <stddef.h>

const char *const secrets_literal[] = {
	".env", ".env.local", ".env.production", ".git-credentials", ".netrc",
	".npmrc", ".pypirc", NULL,
};

static const char *const names[] = {
	".boto", ".cargo-credentials", ".dockercfg", ".env", ".env.*",
	".git-credentials", ".htpasswd", ".my.cnf", ".netrc", ".npmrc",
	".pgpass", ".pypirc", ".s3cfg", ".terraformrc", ".vault-token",
	"*.jks", "*.key", "*.keystore", "*.kdbx", "*.p12", "*.pem", "*.pfx",
	"*.ppk", "*.tfstate", "*.tfvars", "credentials", "credentials.json",
	"credentials.toml", "id_dsa", "id_ecdsa", "id_ed25519", "id_rsa",
	"kubeconfig", "kubeconfig.*", "secrets.json", "secrets.toml",
	"secrets.yaml", "secrets.yml", "service-account*.json", NULL,
};

/* Of the same form, but made to be read by others. */
static const char *const samples[] = {
	"*.dist", "*.example", "*.sample", "*.template", "*.tmpl",
	"*.pub.pem", NULL,
};

static bool is_any(const char *const *globs, const char *name)
{
	for (size_t i = 0; globs[i]; i++) {
		if (glob_match(globs[i], name))
			return true;
	}
	return false;
}

/* Letters of both cases count as one: a file system may say so, and people do. */
bool secrets_is_name(const char *name)
{
	char lower[NAME_MAX + 1];
	size_t n = 0;

	for (; name[n] && n < NAME_MAX; n++)
		lower[n] = name[n] >= 'A' && name[n] <= 'Z'
				   ? (char)(name[n] - 'A' + 'a')
				   : name[n];
	lower[n] = '\0';
	return is_any(names, lower) && !is_any(samples, lower);
}

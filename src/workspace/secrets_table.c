/*
 * The built-in list of files that hold secrets: names of what tools write
 * tokens and keys into, and of what people keep in a project. Where a name says
 * nothing by itself, as "config" does, it counts in the tool's directory alone.
 * Each is where the tool's own manual says that its credentials lie.
 */
#include "workspace/secrets.h"

#include "base/glob.h"

#include <limits.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

const char *const secrets_literal[] = {
	".env", ".env.local", ".env.production", ".git-credentials", ".netrc",
	".npmrc", ".pypirc", NULL,
};

static const char *const names[] = {
	".boto", ".cargo-credentials", ".credentials.json", ".databrickscfg",
	".dockercfg", ".env", ".env.*", ".git-credentials", ".htpasswd",
	".my.cnf", ".mylogin.cnf", ".netrc", ".npmrc", ".pgpass", ".pypirc",
	".s3cfg", ".smbcredentials", ".terraformrc", ".vault-token",
	"*.agekey", "*.jks", "*.kdb", "*.kdbx", "*.key", "*.keystore",
	"*.ovpn", "*.p12", "*.p8", "*.pem", "*.pfx", "*.pkcs12", "*.ppk",
	"*.publishsettings", "*.tfplan", "*.tfstate", "*.tfstate.*",
	"*.tfvars", "*.tfvars.json", "_netrc",
	"application_default_credentials.json", "credentials",
	"credentials.json", "credentials.tfrc.json", "credentials.toml",
	"id_dsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk",
	"id_rsa", "kubeconfig", "kubeconfig.*", "local.settings.json",
	"secrets.json", "secrets.toml", "secrets.yaml", "secrets.yml",
	"service-account*.json", "sftp-config.json", "terraform.rc", NULL,
};

/* A directory, by the end of its path, and what in it holds secrets. */
static const struct {
	const char *dir, *name;
} places[] = {
	{".aws", "config"}, /* may hold keys as credentials does */
	{".aws/cli/cache", "*"},
	{".aws/sso/cache", "*"},
	{".azure", "*.json"}, /* tokens and service principals */
	{".azure", "msal_*"},
	{".cloudflared", "*.json"},
	{".codex", "auth.json"},
	{".composer", "auth.json"},
	{".config", "hub"},
	{".config/composer", "auth.json"},
	{".config/containers", "auth.json"}, /* containers-auth.json(5) */
	{".config/doctl", "config.yaml"},
	{".config/gcloud", "*.db"},
	{".config/gh", "hosts.yml"},
	{".config/glab-cli", "config.yml"},
	{".config/rclone", "rclone.conf"},
	{".docker", "config.json"}, /* docker login: auths */
	{".fly", "config.yml"},
	{".gemini", "oauth_creds.json"},
	{".gnupg", "secring.gpg"},
	{".gnupg/private-keys-v1.d", "*"},
	{".gradle", "gradle.properties"},
	{".kube", "config"},
	{".kube", "config.*"},
	{".m2", "settings.xml"},
	{".m2", "settings-security.xml"},
	{".netlify", "config.json"},
	{".nuget", "nuget.config"},
	{".ssh", "*"}, /* ssh(1), FILES */
	{".vscode", "sftp.json"},
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

static bool is_in(const char *dir, const char *place)
{
	size_t len = strlen(dir), n = strlen(place);

	return len >= n && !strcasecmp(dir + len - n, place) &&
	       (len == n || dir[len - n - 1] == '/');
}

static bool is_place(const char *dir, const char *name)
{
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		if (is_in(dir, places[i].dir) &&
		    glob_match(places[i].name, name))
			return true;
	}
	return false;
}

/* Letters of both cases count as one: a file system may say so, and people do. */
bool secrets_is_file(const char *dir, const char *name)
{
	char lower[NAME_MAX + 1];
	size_t n = 0;

	for (; name[n] && n < NAME_MAX; n++)
		lower[n] = name[n] >= 'A' && name[n] <= 'Z'
				   ? (char)(name[n] - 'A' + 'a')
				   : name[n];
	lower[n] = '\0';
	return (is_any(names, lower) || is_place(dir, lower)) &&
	       !is_any(samples, lower);
}

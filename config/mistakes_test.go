package config_test

import (
	"reflect"
	"regexp"
	"strings"
	"testing"

	"capd/config"
	"capd/vfs"
)

// mounts returns a file with one mount, a flow mapping with these keys, on line 2.
func mounts(keys string) string { return "mounts:\n- {" + keys + "}\n" }

// mount returns a file with one more key of its mount, on line 4.
func mount(key string) string { return "mounts:\n- path: a\n  url: memory:x\n  " + key + "\n" }

// guest returns a file with one guest, on line 3.
func guest(keys string) string {
	return "mounts: [{path: a, url: 'memory:'}]\nguests:\n- {" + keys + "}\n"
}

// invite returns a file with one invitation, with more keys in line 4.
func invite(keys string) string {
	return "mounts: [{path: a, url: 'memory:'}]\ninvites:\n- {subject: lint, locatorFile: l,\n   " + keys + "}\n"
}

// root returns a file with one root of the mount a, on line 3, with more keys in line 4.
func root(keys string) string {
	return "mounts: [{path: a, url: 'memory:'}]\nroots:\n- {id: r, kind: workspace, mount: a,\n   " + keys + "}\n"
}

// inRoot returns a file with one root and, on line 6, one guest in it with more keys.
func inRoot(keys string) string {
	return root("name: x") + "guests:\n- {name: a, root: r, " + keys + "}\n"
}

func overlaid(keys string) string {
	return strings.Replace(root(keys), "memory:", "overlay:memory:", 1)
}

// hook returns a file with one hook, with more keys in line 3.
func hook(keys string) string {
	return "mounts: [{path: a, url: 'memory:'}]\nhooks: [{name: a, command: [/a],\n   " + keys + "}]\n"
}

// rule returns a file with one rule, with more keys in line 3.
func rule(keys string) string {
	return "mounts: [{path: a, url: 'memory:'}]\nrules: [{effect: deny, patterns: ['**'],\n   " + keys + "}]\n"
}

// top returns a file with one more key, on line 2.
func top(key string) string { return "mounts: [{path: a, url: 'memory:'}]\n" + key + "\n" }

// mistakes are files with a mistake, its place, and a part of the message.
var mistakes = []struct {
	file, at, says string
	schema         bool // the schema refuses it too
}{
	// The file.
	{"", "1:1", "says nothing", true},
	{"\ufeff", "1:1", "says nothing", true},
	{"# nothing\n", "1:1", "says nothing", true},
	{"---\n", "1:1", "says nothing", true},
	{"null\n", "1:1", "says nothing", true},
	{"x\n", "1:1", "the file is a text", true},
	{"- a\n", "1:1", "the file is a list", true},
	{"7\n", "1:1", "the file is a number", true},
	{"{}\n", "1:1", "no mounts; write mounts:", true},
	{"mounts: []\n", "1:9", "mounts is empty", true},
	{"mounts:\n", "1:1", "mounts is nothing", true},
	{"mounts: {}\n", "1:9", "mounts is a mapping", true},
	{"mounts: [a]\n", "1:10", "a mount is a text", true},
	{"mounts: [~]\n", "1:10", "a mount is nothing", true},
	{top("---\nmounts: []"), "2:1", "second document", false},
	{top("...\nx: y"), "3:1", "second document", false},
	{"a\x00b\n", "1:2", "U+0000", false},
	{"a: é\x1b\n", "1:5", "U+001B", false},
	{"a: x\u0085y\n", "1:5", "U+0085", false},
	{"é: \n  é\xff\n", "2:4", "not UTF-8", false},
	{"\xff\xfem\x00o\x00", "1:1", "not UTF-8", false},
	{"mounts:\n\t- a\n", "2:1", "not YAML", false},
	{"mounts:\n  - path: a\n   url: b\n", "3:4", "not YAML", false},
	{"mounts: [\n", "1:9", "not YAML", false},
	{mount("x: \"é"), "4:6", "not YAML", false},
	{"mounts:\n- path: a\n  url: memory:\n", "3:8", "ends in \":\"", false},
	{"state: " + strings.Repeat("<\t", 128) + "<", "1:264", "more than 256 tabs", false},
	{"state: &a x\nlisten: [*a]\n", "1:8", "anchors", false},
	{"state: *a\n", "1:8", "aliases", false},
	{"state: !!str 7\n", "1:8", "tags", false},
	{"? state\n: x\n", "1:1", "KEY: VALUE", false},
	{"<<: {state: x}\n", "1:1", "merge keys", false},
	{"%YAML 1.2\n---\nstate: x\n", "1:1", "directives", false},
	{"state: " + strings.Repeat("[", 33), "1:39", "levels", false},
	{"state:\n" + strings.Repeat("- ", 33), "2:65", "levels", false},
	{"state: [" + strings.Repeat("- ", 31), "1:69", "levels", false},
	{strings.Repeat("a:\n", 65), "65:1", "more than 64 keys", false},
	{"m:\n  - b: 1\n" + strings.Repeat("    a: 1\n", 64), "66:5", "more than 64 keys", false},

	// Keys.
	{top("mount: []"), "2:1", `the file has no key "mount" (did you mean mounts?); it has state, listen,`, true},
	{top("colour: red"), "2:1", `no key "colour"; it has`, true},
	{top("7: x"), "2:1", `no key "7"`, true},
	{top("true: x"), "2:1", `no key "true"`, true},
	{top("null: x"), "2:1", `no key "null"`, true},
	{top("\"a\\u202e\": x"), "2:1", `no key "a\u202e"`, true},
	{top(strings.Repeat("k", 70) + ": x"), "2:1", `"` + strings.Repeat("k", 64) + `…";`, true},
	{top("mounts: []"), "2:1", "mounts is here twice, first in line 1", false},
	{mount("readonly: true"), "4:3", "did you mean readOnly?", true},
	{mount("read-only: true"), "4:3", "did you mean readOnly?", true},
	{mount("READ_ONLY: true"), "4:3", "did you mean readOnly?", true},
	{mount("aks: []"), "4:3", "did you mean ask?", true},
	{mount("qouta: {}"), "4:3", "did you mean quota?", true},
	{mount("denies: []"), "4:3", `no key "denies"; it`, true},
	{mount("x: []"), "4:3", `no key "x"; it`, true},
	{mount("url: git:x"), "4:3", "url is here twice, first in line 3", false},
	{mount("quota: {byte: 1}"), "4:11", "quota has no key \"byte\" (did you mean bytes?)", true},
	{mount("quota: {nodes: 1, nodes: 1}"), "4:21", "twice", false},
	{guest("name: a, nam: b"), "3:13", "a guest has no key \"nam\" (did you mean name?)", true},
	{mounts("path: a"), "2:3", "a mount has no url", true},
	{mounts("url: 'memory:'"), "2:3", "a mount has no path", true},
	{"mounts:\n- url: memory:x\n", "2:3", "a mount has no path", true},
	{guest("path: a"), "3:3", "a guest has no name", true},
	{guest(""), "3:3", "a guest has no name", true},

	// Types.
	{top("state: 7"), "2:8", `a number; if it is meant as a text, write "7"`, true},
	{top("state: 7.5"), "2:8", `write "7.5"`, true},
	{top("state: .nan"), "2:8", `write ".nan"`, true},
	{top("state: true"), "2:8", `write "true"`, true},
	{top("state:"), "2:1", "state is nothing", true},
	{top("state: ~"), "2:1", "state is nothing", true},
	{top("state: []"), "2:8", "state is a list", true},
	{top("state: {a: b}"), "2:8", "state is a mapping", true},
	{top("state:\n  a: b"), "3:3", "state is a mapping", true},
	{top("state: ''"), "2:8", "state is empty", true},
	{top("state: \"a\\0b\""), "2:8", `control character, or more lines than one; write "ab"`, false},
	{top("state: |\n  a"), "2:8", `write "a"`, false},
	{top("listen: tls::0"), "2:9", "listen is a text; write a list", true},
	{top("invites: x"), "2:10", "invites is a text; write a list", true},
	{top("invites: [{locatorFile: l}]"), "2:11", "an invitation has no subject; write who may ask", true},
	{top("invites: [{subject: lint}]"), "2:11", "an invitation has no locatorFile; write a file", true},
	{top("invites: [{subject: lint, locatorFile: ''}]"), "2:40", "locatorFile is empty", true},
	{top("invites: [{subject: 'robot:x', locatorFile: l}]"), "2:21", "subject is \"robot:x\"", true},
	{top("invites: [{subject: g1, locatorFile: l}]"), "2:21", "subject is \"g1\"", true},
	{top("invites: [{subject: a, locatorFile: l}, {subject: 'agent-run:a', locatorFile: m}]"), "2:51", "the invitation in line 2 is for \"a\" too", false},
	{top("invites: [{subject: a, locatorFile: l}, {subject: b, locatorFile: l}]"), "2:67", "the locatorFile in line 2 is \"l\" too", false},
	{top("guests: [{name: a, locatorFile: l}]\ninvites: [{subject: a, locatorFile: l}]"), "3:37", "the locatorFile in line 2 is \"l\" too", false},
	{top("guests: [{name: a, locatorFile: l}, {name: b, locatorFile: l}]"), "2:60", "the locatorFile in line 2 is \"l\" too", false},
	{invite("name: x"), "4:4", "an invitation has no key \"name\"", true},
	{invite("permissions: read"), "4:17", "permissions is a text; write a list", true},
	{invite("permissions: [read]"), "4:18", "read is no permission; write filesystem:KIND:RIGHT", true},
	{invite("permissions: ['filesystem:secret:read']"), "4:18", "nothing in a root of the kind secret is given to who asks", true},
	{invite("permissions: ['filesystem:home:read']"), "4:18", "home is no kind of root", true},
	{invite("permissions: ['filesystem:workspace:']"), "4:18", "", true},
	{invite("permissions: ['filesystem:workspace:raed']"), "4:18", "raed", false},
	{invite("permissions: [" + strings.Repeat("'filesystem:temp:read', ", 65) + "]"), "4:17", "there are 65 permissions", true},
	{invite("source: operator"), "4:12", "source is \"operator\"; write manifest or conversation or core", true},
	{invite("expires: 0s"), "4:13", "expires: ", false},
	{invite("expires: soon"), "4:13", "expires: ", true},
	{top("guests: x"), "2:9", "guests is a text; write a list", true},
	{top("guests: [x]"), "2:10", "a guest is a text", true},
	{mount("readOnly: yes"), "4:13", "readOnly is a text; write true or false", true},
	{mount("readOnly: 1"), "4:13", "readOnly is a number; write true or false", true},
	{mount("readOnly:"), "4:3", "readOnly is nothing", true},
	{mount("links: [follow]"), "4:10", "links is a list", true},
	{mount("deny: x"), "4:9", "deny is a text; write a list", true},
	{mount("deny:"), "4:3", "[] for an empty list", true},
	{mount("ask: [1]"), "4:9", "an item of ask is a number", true},
	{mount("ask: [~]"), "4:9", "an item of ask is nothing", true},
	{mount("ask: [a, ]\n  quota: 7"), "5:10", "quota is a number; write a mapping", true},
	{mount("quota: []"), "4:10", "quota is a list", true},

	// Mounts.
	{mounts("path: /a, url: 'memory:'"), "2:10", `never with "/"`, true},
	{mounts("path: a/../b, url: 'memory:'"), "2:10", "no parent", true},
	{mounts("path: ., url: 'memory:'"), "2:10", "not a name", true},
	{mounts("path: a//b, url: 'memory:'"), "2:10", "a name is empty", true},
	{mounts("path: a/, url: 'memory:'"), "2:10", "a name is empty", true},
	{mounts(`path: 'a\b', url: 'memory:'`), "2:10", "backslash", false},
	{mounts(`path: "a\u202eb", url: 'memory:'`), "2:10", "U+202E", false},
	{mounts("path: " + strings.Repeat("a", 256) + ", url: 'memory:'"), "2:10", "longer than 255", false},
	{mounts("path: " + strings.Repeat("a/", 2048) + "a, url: 'memory:'"), "2:10", "longer than 4095", true},
	{mounts("path: " + strings.Repeat("a/", 128) + "a, url: 'memory:'"), "2:10", "deeper than 128", false},
	{top("guests: []\n") + "#", "", "", false},
	{"mounts:\n- {path: a/b, url: 'memory:'}\n- {path: c, url: 'memory:'}\n- path: \"a/b\"\n  url: 'git:x'\n", "4:9", `the mount in line 2 is at "a/b" too`, false},
	{"mounts: [{path: '', url: 'memory:'}, {path: '', url: 'memory:'}]", "1:45", `line 1 is at "" too`, false},
	{mounts("path: a, url: ''"), "2:18", "what kind of store", true},
	{mounts("path: a, url: ../src"), "2:18", "what kind of store", true},
	{mounts("path: a, url: C:\\src"), "2:18", "what kind of store", true},
	{mounts("path: a, url: c:/src"), "2:18", "what kind of store", true},
	{mounts("path: a, url: ':x'"), "2:18", "what kind of store", true},
	{mounts("path: a, url: \"git:\\n\""), "2:18", "more lines than one", false},
	{mount("links: ignore"), "4:10", "follow or refuse", true},
	{mount("deny: ['[']"), "4:10", `the pattern is "[": a pattern holds an open`, false},
	{mount("deny: [a, /b]"), "4:13", `never with "/"`, true},
	{mount("deny: ['']"), "4:10", "not empty", true},
	{mount("ask:\n  - 'a/../b'"), "5:5", `".."`, false},
	{mount("ask: ['{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}']"), "4:9", "more than 64", false},

	// Sizes and counts.
	{guest("name: a, expires: soon"), "3:22", "expires: \"soon\" is no time; write 90s, 2h30m or 7d", true},
	{guest("name: a, expires: 7"), "3:22", "expires is a number", true},
	{guest("name: a, expires: -1h"), "3:22", "is no time", true},
	{guest("name: a, unused: 0s"), "3:21", "unused: \"0s\" is no time", false},
	{guest("name: a, unused: 36501d"), "3:21", "is no time", false},
	{guest("name: a, uses: 0"), "3:19", "uses is 0; write a whole number from 1, in digits, or leave it out for any number", true},
	{guest("name: a, uses: many"), "3:19", "uses is", true},
	{mount("quota: {bytes: 0}"), "4:18", "leave it out for no bound", true},
	{mount("quota: {bytes: '0'}"), "4:18", "leave it out for no bound", true},
	{mount("quota: {bytes: -1}"), "4:18", "bytes is -1", true},
	{mount("quota: {bytes: -1MiB}"), "4:18", "not a size", true},
	{mount("quota: {bytes: 1.5}"), "4:18", "bytes is 1.5; write a whole number of bytes from 1, such as", true},
	{mount("quota: {bytes: 1.5MiB}"), "4:18", "not a size", true},
	{mount("quota: {bytes: 0x10}"), "4:18", "plain digits", false},
	{mount("quota: {bytes: 010}"), "4:18", "plain digits", false},
	{mount("quota: {bytes: 1_000}"), "4:18", "plain digits", false},
	{mount("quota: {bytes: +5}"), "4:18", "plain digits", false},
	{mount("quota: {bytes: 9223372036854775808}"), "4:18", "too large", true},
	{mount("quota: {bytes: 99999999999999999999}"), "4:18", "too large", true},
	{mount("quota: {bytes: 9223372036854775808B}"), "4:18", "too large", false},
	{mount("quota: {bytes: 8388608TiB}"), "4:18", "too large", false},
	{mount("quota: {bytes: 64 MiB}"), "4:18", "not a size", true},
	{mount("quota: {bytes: 64mib}"), "4:18", "not a size", true},
	{mount("quota: {bytes: MiB}"), "4:18", "not a size", true},
	{mount("quota: {bytes: }"), "4:11", "bytes is nothing", true},
	{mount("quota: {bytes: true}"), "4:18", "bytes is true or false", true},
	{mount("quota: {nodes: 0}"), "4:18", "nodes is 0", true},
	{mount("quota: {nodes: -7}"), "4:18", "nodes is -7", true},
	{mount("quota: {nodes: -9223372036854775809}"), "4:18", "nodes is", true},
	{mount("quota: {nodes: 1k}"), "4:18", `nodes is the text "1k"; write a whole number from 1`, true},
	{mount("quota: {nodes: '1'}"), "4:18", `nodes is the text "1"; write`, true},
	{mount("quota: {nodes: 1.5}"), "4:18", "nodes is 1.5; write a whole number from 1, in digits", true},
	{mount("quota: {bytes: 1Gb}"), "4:18", "not a size (did you mean 1GB?); write a whole number of bytes, or a number with KB,", true},
	{top("limits: {nodes: 1.5}"), "2:17", "nodes is 1.5; write a whole number from 1, in digits, or none for no limit", true},
	{top("guestLimits: {storedBytes: 1.5}"), "2:28", "storedBytes is 1.5; write a whole number of bytes from 1, such as 1024 or 64MiB, or none for no limit", true},
	{guest("name: a, limits: {threads: 1.5}"), "3:31", "threads is 1.5; write a whole number", true},
	{mount("quota: {nodes: 18446744073709551615}"), "4:18", "too large", true},

	// Guests.
	{guest("name: ''"), "3:10", "1 to 64", true},
	{guest("name: a b"), "3:10", "1 to 64", true},
	{guest("name: a/1"), "3:10", "1 to 64", true},
	{guest("name: é"), "3:10", "1 to 64", true},
	{guest("name: " + strings.Repeat("x", 65)), "3:10", "1 to 64", true},
	{guest("name: g12"), "3:10", "grant's id", true},
	{guest("name: 'robot:x'"), "3:10", "KIND is core, agent-run", true},
	{guest("name: 'agent-run:g12'"), "3:10", "grant's id", true},
	{guest("name: a}\n- {name: 'agent-run:a'"), "4:10", "the guest in line 3", false},
	{guest("name: 7"), "3:10", `write "7"`, true},
	{guest("name: a}\n- {name: b}\n- {name: a"), "5:10", "the guest in line 3", false},
	{guest("name: a, path: /a"), "3:19", `never with "/"`, true},
	{guest("name: a, path: a/.."), "3:19", "no parent", true},
	{guest("name: a, readOnly: 'true'"), "3:23", "readOnly is a text", true},
	{guest("name: a, limits: {storedBytes: x}"), "3:35", "not a size", true},

	// Rules.
	{top("policy: {}"), "2:9", "policy has no default; write what holds where no rule matches: default: allow or default: deny", true},
	{top("policy: {default: ask}"), "2:19", `default is "ask"; write allow or deny`, true},
	{rule("x: 1"), "3:4", `a rule has no key "x"; it has effect, subject, root, operations, patterns, except, symlinks, hardlinks, maxFileBytes`, true},
	{top("rules: [{effect: deny}]"), "2:9", `a rule has no patterns; write where it holds, such as patterns: ["**/.env"], or ["**"] for every path`, true},
	{top("rules: [{patterns: ['**']}]"), "2:9", "a rule has no effect; write what it does: effect: deny, ask or allow", true},
	{top("rules: [{effect: dney, patterns: ['**']}]"), "2:18", `effect is "dney" (did you mean deny?); write deny or ask or allow`, true},
	{rule("except: ['/a']"), "3:13", `the pattern is "/a"`, true},
	{rule("subject: 'robot:x'"), "3:13", `subject is "robot:x": "robot" is no kind of guest`, false},
	{rule("subject: ''"), "3:13", `subject is ""`, true},
	{rule("root: attic"), "3:10", `root is "attic"; write workspace or extension-storage`, true},
	{rule("root: {name: x}"), "3:11", `root has no key "name"; it has id`, true},
	{rule("root: {id: ''}"), "3:15", "id is empty; write the id of a root", true},
	{rule("operations: [fly]"), "3:17", `"fly" is no operation; write some of read, write, delete, list, move, archive, watch, metadata, link`, true},
	{rule("symlinks: follow"), "3:14", `symlinks is "follow"; write reject or in-root`, true},
	{rule("hardlinks: in-root"), "3:15", `hardlinks is "in-root"; write reject or allow`, true},
	{rule("maxFileBytes: 0"), "3:18", "maxFileBytes is 0; write a whole number of bytes from 1, such as 1024 or 10MiB, or leave it out for no bound", true},
	{rule("maxFileBytes: lots"), "3:18", `maxFileBytes is "lots"`, true},

	// Approvals and hooks.
	{top("approvals: always"), "2:12", `approvals is "always"; write listen or wait`, true},
	{hook("x: 1, before: true"), "3:4", `a hook has no key "x"; it has name, command, before, after, operations, patterns, subject, observe`, true},
	{hook("after: false"), "2:9", "a hook runs neither before a change nor after it; write before: true, after: true or both", true},
	{hook("after: true, observe: true"), "2:9", "observe is about what a hook answers before a change; leave it out, or write before: true", true},
	{hook("before: true, operations: [read]"), "3:31", `"read" is no change; write some of write, delete, move`, true},
	{hook("before: true, patterns: ['/a']"), "3:29", `the pattern is "/a"`, true},
	{hook("before: true, subject: 'lint:*'"), "3:27", `subject is "lint:*"`, false},
	{top("hooks: [{name: A, command: [/a], before: true}]"), "2:16", `a hook cannot be called "A"`, true},
	{top("hooks: [{name: a, command: [a], before: true}]"), "2:29", `the program is "a"; write its absolute path`, false},
	{top("hooks: [{name: a, command: [], before: true}]"), "2:28", "command is empty", true},
	{top("hooks: [{name: a, before: true}]"), "2:9", "a hook has no command", true},
	{top("hooks: [{command: [/a], before: true}]"), "2:9", "a hook has no name", true},
	{hook("before: true}, {name: a, command: [/a], before: true"), "3:26", "the hook in line 2 is called \"a\" too", false},

	// Roots.
	{root("x: 1"), "4:4", `a root has no key "x"; it has id, kind, mount, name, labels`, true},
	{root("name: ''"), "4:10", "name is empty; write what people read", true},
	{root("labels: ['']"), "4:13", "a label is empty", true},
	{top("roots: [{kind: secret, mount: a}]"), "2:9", "a root has no id", true},
	{top("roots: [{id: a, mount: a}]"), "2:9", "a root has no kind", true},
	{top("roots: [{id: a, kind: secret}]"), "2:9", "a root has no mount", true},
	{top("roots: [{id: b, kind: temp, mount: a}]"), "2:36", "leave mount out", true},
	{top("roots: [{id: b, kind: extension-storage, mount: ''}]"), "2:49", "leave mount out", true},
	{top("roots: [{id: a, kind: temp}]"), "2:9", `"a" is a mount too`, false},
	{top("roots: [{id: a, kind: extension-storage}]"), "2:9", "write another id", false},
	{top("roots: [{id: a b, kind: secret, mount: a}]"), "2:14", "no root's id; write 1 to 64", true},
	{top("roots: [{id: a, kind: tmp, mount: a}]"), "2:23", "no kind of root (did you mean temp?); write one of workspace, extension-storage", true},
	{top("roots: [{id: a, kind: workspce, mount: a}]"), "2:23", "did you mean workspace?", true},
	{guest("name: a, scratch: {bytes: 1}"), "3:3", "scratch is beside a workspace; write the id of a root", false},
	{guest("name: a, permissions: ['filesystem:workspace:read']"), "3:3", "without root and path this guest gets all of the tree", false},
	{guest("name: a, path: b, permissions: [read]"), "3:36", "read is no permission; write filesystem:KIND:RIGHT", true},
	{inRoot("scratch: {}"), "6:31", "scratch has no bytes", true},
	{inRoot("scratch: {bytes: 0}"), "6:39", "bytes is 0", true},
	{root("access: rx"), "3:3", `access cannot be "rx"; write rw, ro, none`, true},
	{root("access: ro, scope: mine"), "3:3", `scope cannot be "mine"; write session, agent, shared`, true},
	{root("scope: agent"), "3:3", "write access: ro or access: none, or leave it out", true},
	{root("access: rw, scope: agent"), "3:3", "scope is that of a workspace's drafts", true},
	{root("access: ro"), "3:35", "a draft cannot lie on what is only in memory", false},
	{overlaid("access: none"), "3:35", "a draft cannot lie on an overlay", false},
	{top("roots: [{id: a, kind: secret, mount: a, access: ro}]"), "2:9", "only a root of kind workspace has access", true},
	{top("roots: [{id: .., kind: workspace, mount: a, access: ro}]"), "2:9", ".. is none; write another id", true},
	{mounts("path: scopes, url: 'memory:'"), "2:10", "below scopes; write another path", true},
	{mounts("path: scopes/a, url: 'memory:'"), "2:10", "below scopes; write another path", true},
	{top("roots: [{id: a, kind: secret, mount: b}]"), "2:38", `nothing is mounted at "b"; write the path of a mount`, false},
	{top("roots: [{id: a, kind: downloads, mount: a}]"), "2:41", "write overlay: before its url", false},
	{top("roots: [{id: a, kind: secret, mount: a}, {id: a, kind: temp}]"), "2:47", `the root in line 2 has the id "a" too`, false},
	{top("roots: [{id: a, kind: secret, mount: a}, {id: b, kind: artifact, mount: a}]"), "2:73", `the root in line 2 has the mount "a" too`, false},
	{guest("name: a, root: b"), "3:19", `no root has the id "b"`, false},
	{guest("name: a, rights: []"), "3:21", "rights is empty; write at least one of read, write", true},
	{guest("name: a, rights: [raed]"), "3:22", "no right (did you mean read?)", true},
	{guest("name: a, rights: [all]"), "3:22", "no right; write some of", true},
	{guest("name: a, rights: read"), "3:21", "rights is a text; write a list", true},

	// Limits.
	{top("limits: []"), "2:9", "limits is a list; write a mapping", true},
	{top("limits: {conections: 1}"), "2:10", `limits has no key "conections" (did you mean connections?); it has connections, nodes, streams,`, true},
	{top("guestLimits: {stored_bytes: 1}"), "2:15", "did you mean storedBytes?", true},
	{top("limits: {threads: 0}"), "2:19", "threads is 0; write a whole number from 1, in digits, or none for no limit, or leave it out for the default", true},
	{top("limits: {threads: 1k}"), "2:19", "threads is the text \"1k\"; write a whole number from 1, in digits, or none", true},
	{top("limits: {threads: '7'}"), "2:19", "threads is the text", true},
	{top("limits: {threads: -1}"), "2:19", "or none for no limit", true},
	{top("limits: {callBytes: 0}"), "2:21", "or none for no limit, or leave it out for the default", true},
	{top("limits: {callBytes: None}"), "2:21", "not a size", true},
	{top("limits: {callBytes: 64M}"), "2:21", "not a size", true},
	{top("limits: {nodes: 1, nodes: 2}"), "2:20", "nodes is here twice", false},
	{top("limits: {nodes: }"), "2:10", "nodes is nothing", true},
	{guest("name: a, quota: {bytes: 1}"), "3:13", `a guest has no key "quota"; it has name, root, path, readOnly, rights, links, permissions, beyondDefault, scratch, limits`, true},

	// Addresses.
	{top("listen: [localhost:7000]"), "2:10", "tls:HOST:PORT", true},
	{top("listen: ['tls:localhost']"), "2:10", "tls:HOST:PORT", true},
	{top("listen: ['tls:localhost:']"), "2:10", "tls:HOST:PORT", true},
	{top("listen: ['tls:::1:7000']"), "2:10", "tls:HOST:PORT", true},
	{top("listen: ['tls:a b:7000']"), "2:10", "tls:HOST:PORT", true},
	{top("listen: ['tls:h:65536']"), "2:10", "tls:HOST:PORT", false},
	{top("listen: ['tls:h:-1']"), "2:10", "tls:HOST:PORT", true},
	{top("socketMode: 0660"), "2:13", "a number; if it is meant as a text", true},
	{top("socketMode: '0777'"), "2:13", "write an octal number in quotes", true},
	{top("socketMode: '0066'"), "2:13", "write an octal number in quotes", true},
	{top("socketMode: '660 '"), "2:13", "write an octal number in quotes", true},
	{top("socketGroup: ''"), "2:14", "write a group's name", true},
	{top("socketGroup: 7"), "2:14", `write "7"`, true},
	{top("socketDir: ''"), "2:12", "write a directory", true},
	{top("history: off"), "2:10", "write a mapping", true},
	{top("history: {keep: none}"), "2:17", "keep: ", true},
	{top("history: {bytes: 0}"), "2:18", "256MiB", true},
	{top("history: {changes: many}"), "2:20", "a whole number from 1", true},
	{top("history: {total: 1XB}"), "2:18", "1XB", true},
	{top("record: on"), "2:9", "write off", true},
	{top("record: false"), "2:9", "write a mapping", true},
	{top("record: {keep: 1y}"), "2:16", "or none to keep all", true},
	{top("record: {keep: 365}"), "2:16", "a number; if it is meant as a text", true},
	{top("record: {size: 1KiB}"), "2:16", "write a size from 1MiB", false},
	{top("record: {otlp: 'collector:4318'}"), "2:16", "write the URL of a collector", true},
	{top("record: {otlp: 'ftp://collector'}"), "2:16", "write the URL of a collector", true},
	{top("record: {otlp: 'http://a b'}"), "2:16", "write the URL of a collector", true},
	{top("record: {size: 0}"), "2:16", "1GiB", true},
	{top("advertise: ''"), "2:12", "HOST or HOST:PORT", true},
	{top("advertise: ::1"), "2:12", "in brackets", true},
	{top("advertise: h:0"), "2:12", "HOST or HOST:PORT", true},
	{top("advertise: h:65536"), "2:12", "HOST or HOST:PORT", false},
	{top("advertise: tls:h:1"), "2:12", "HOST or HOST:PORT", true},
}

// TestMistakes: every message names the place of the mistake and what to do, and contains
// nothing that looks like another line.
func TestMistakes(t *testing.T) {
	line := regexp.MustCompile(`^capd\.yaml:\d+:\d+: [^\n]+; [^\n]+$`)
	for _, m := range mistakes {
		c, err := config.Parse("capd.yaml", []byte(m.file))
		if m.at == "" {
			if err != nil {
				t.Errorf("%q: %v", m.file, err)
			}
			continue
		}
		e, ok := err.(*vfs.Error)
		if !ok || c != nil || e.Code != vfs.Invalid {
			t.Errorf("%q: %v, %v", m.file, c, err)
			continue
		}
		found := false
		for text := range strings.SplitSeq(e.Msg, "\n") {
			if !line.MatchString(text) || text != vfs.Printable(text) {
				t.Errorf("%q: says %q", m.file, text)
			}
			found = found || strings.HasPrefix(text, "capd.yaml:"+m.at+": ") && strings.Contains(text, m.says)
		}
		if !found {
			t.Errorf("%q: not %s %q but\n%s", m.file, m.at, m.says, e.Msg)
		}
	}
}

// TestAllMistakes: all mistakes of a file are reported at once, in order.
func TestAllMistakes(t *testing.T) {
	_, err := config.Parse("dir\n/capd.yaml", []byte("guests: [{nam: 7}]\nmounts:\n- path: /a\n  url: x\n  deny: ['[', b, '{']\n"))
	want := []string{"1:10", "1:11", "3:9", "4:8", "5:10", "5:18"}
	e, _ := err.(*vfs.Error)
	if e == nil {
		t.Fatal(err)
	}
	var got []string
	for text := range strings.SplitSeq(e.Msg, "\n") {
		at, _, _ := strings.Cut(strings.TrimPrefix(text, `dir\u000a/capd.yaml:`), ": ")
		got = append(got, at)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("at %q rather than %q:\n%s", got, want, e.Msg)
	}

	_, err = config.Parse("f", []byte("mounts:\n"+strings.Repeat("- {}\n", 1000)))
	lines := strings.Split(err.Error(), "\n")
	if n := len(lines); n != 21 || lines[20] != "f:12:3: 1980 more mistakes from here on; correct those above first" {
		t.Errorf("%d lines, the last %q", n, lines[n-1])
	}
}

# Reads what go test -v printed and says what failed in it: the names of tests and packages, and of what they printed the
# part that explains it, at most `most` lines in all (120).
#
#	awk -f .ci/failures.awk LOG

BEGIN { if (!most) most = 120 }

# The lines of each test are kept until its package ends; those of no test, under "".
/^=== (RUN|NAME|CONT|PAUSE) / { test = $3; next }
/^ *--- FAIL: / { failed[++n] = $3; names[++m] = $0 }
/^ *--- (PASS|FAIL|SKIP): / { if ($0 ~ /^---/) test = ""; next }
/^(panic: |fatal error: |SIGQUIT: )/ && !crash { crash = 1; names[++m] = $0; keep("") }
crash && /^running tests:|^\t+running tests:/ { running = 1 }
crash && running && /^$/ { running = 0 }
running && /\(/ { names[++m] = "    running: " $1 " " $2 }
/^FAIL\t/ { names[++m] = $0; explain($2); start(); next }
/^(ok|\?|---) / || /^ok\t/ { start(); next }
/^(PASS|FAIL)$/ { next }
crash { dump[++d] = $0; next }
{ keep($0) }
END {
	for (i = 1; i <= m; i++) print names[i]
	if (m && lines) print ""
	for (i = 1; i <= lines && i <= most; i++) print out[i]
	if (lines > most) print "… and " lines - most " lines more"
}

# keep keeps the first 20 lines of a test, and the last 40.
function keep(line,  i) {
	if (size[test] == 60) for (i = 21; i < 60; i++) kept[test, i] = kept[test, i + 1]
	else size[test]++
	kept[test, size[test]] = line
}
function say(line) { out[++lines] = line }

function start(  t) {
	for (t in size) delete size[t]
	for (t in seen) delete seen[t]
	n = d = crash = running = stacks = 0
	test = ""
}

# explain takes over what the tests of a package that failed have printed, and what no test has.
function explain(package,  i, j) {
	say("-- " package)
	for (i = 1; i <= n; i++) {
		if (!size[failed[i]]) continue
		say("--- " failed[i])
		for (j = 1; j <= size[failed[i]]; j++) say(kept[failed[i], j])
	}
	if (n == 0 || crash) for (j = 1; j <= size[""]; j++) say(kept["", j])
	if (crash) { goroutines(1); goroutines(0) }
}

# goroutines takes over the stacks in a dump that run code of ours, those that are alike once and 60 lines at most: of
# tests, or of everything else.
function goroutines(tests,  i, j, ours, of, like) {
	for (i = 1; i <= d; i = j + 1) {
		ours = of = 0
		like = ""
		for (j = i; j <= d && dump[j] != ""; j++) {
			if (dump[j] ~ /^capd\//) ours = 1
			if (dump[j] ~ /^testing\.tRunner/) of = 1
			if (dump[j] ~ /^\t/) like = like dump[j]
		}
		if (dump[i] !~ /^goroutine / || !ours || of != tests || seen[like]++ || stacks > 60) continue
		for (; i < j; i++) { say(dump[i]); stacks++ }
		say("")
	}
}

// Package client uses a directory that a capd host serves, without access to anything
// else of the machine.
//
// # What it is
//
// A host is another process that serves directories. It gave you a locator: a line of
// text that begins with capnp://. The locator stands for a capability: one directory (or
// file), and the right to read or to change it. Whoever has the locator has the
// capability, so keep it secret, like a password. A path cannot name anything outside of
// the directory. There is no parent, no absolute path and no home directory. A link that
// leads outside is an error.
//
// # In a page
//
//	conn, err := client.Dial(ctx, locator)  // to the host
//	defer conn.Close()                      // gives up everything that came over it
//	dir := conn.Dir(ctx)                    // the directory; see Conn.Node for a file
//
// Reading. Paths are relative to the Dir and separated by slashes.
//
//	text, version, err := dir.OpenFile("docs/a.md").ReadText(ctx)
//	for e, err := range dir.List(ctx) { … }                    // in order of names
//	for r, err := range dir.ReadMany(ctx, paths) { … }         // many small files, few round trips
//	for c, err := range dir.ChangedSince(ctx, known) { … }     // which of these files others changed
//	for e, err := range dir.Glob(ctx, "**/*.go") { … }
//	err = file.View(ctx, off, n, func(b []byte, eof bool) error { … }) // a part, where it was received
//	value, version, err := dir.OpenFile("a.json").ReadJSON(ctx, "/list/0") // as it is written
//	fs.WalkDir(vfs.FS(ctx, dir), ".", …)                       // or as an io/fs
//
// Writing whole files. It is atomic: a reader sees the old content or the new one. A
// version identifies a content. If you pass the version that you read, the write answers
// conflict if somebody else changed the file since.
//
//	version, err = dir.Put(ctx, "docs/a.md", strings.NewReader(text), vfs.If{Is: version})
//	if errors.Is(err, vfs.Conflict) { … }                      // read again, change again
//
// To change one value of a JSON file, name it with a JSON pointer. The rest of the file stays
// as it is, and what others change meanwhile is not undone.
//
//	version, err = dir.OpenFile("a.json").WriteJSON(ctx, "/list/-", []byte("1"), vfs.If{})
//
// Attenuating: passing on fewer rights than you hold. Rights never come back: what is
// derived from a read-only Dir is read-only.
//
//	docs := dir.SubDir("docs").ReadOnly()
//
// Delegating: making a locator for somebody else, and revoking it. It also ends when
// your own capability is revoked.
//
//	line, revoker, err := conn.Share(ctx, docs)
//	err = revoker.Revoke(ctx)                                  // docs, for you, lives on
//
// # Promises
//
// Methods without an error result (SubDir, ReadOnly, OpenFile, Revocable) return a
// promise at once. Calls on a promise are sent without waiting, so a chain of calls takes
// one round trip:
//
//	text, _, err := dir.SubDir("docs").ReadOnly().OpenFile("a.md").ReadText(ctx)
//
// An error anywhere in the chain is the error of the last call.
//
// # Errors
//
// Every error has a [vfs.Code] and a text that says what to do next. Compare with
// errors.Is(err, vfs.NotFound), or with fs.ErrNotExist, fs.ErrExist and
// fs.ErrPermission. A program should expect these: revoked (your capability was revoked,
// which can happen at any moment), denied (policy withholds it, whether or not it
// exists), readOnly, conflict, quota, and stale (the connection or the node is gone: dial
// again, or look it up again).
//
// The client does not trust the host: malformed answers are corrupt.
//
// # Closing
//
// The host keeps a Dir or a File open until Close, or until the connection ends. A
// program that runs for long should close what it opens. All methods are safe for
// concurrent use.
package client

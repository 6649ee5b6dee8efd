// Package client is how a Go program uses what a capd host gave it: a directory,
// without the machine around it.
//
// # What it is
//
// A host is another process that serves directories. It gave you a locator: a
// line of text that begins with capnp://. Whoever has the line has what it
// stands for, so keep it as you would keep a password. What it stands for is a
// capability: one directory (or file), with what may be done to it. Nothing
// outside of it has a name here. There is no parent to go to, no absolute path
// and no home directory; a link that leads out is answered with an error.
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
//	for e, err := range dir.Glob(ctx, "**/*.go") { … }
//	err = file.View(ctx, off, n, func(b []byte, eof bool) error { … }) // a part, where it was received
//	fs.WalkDir(vfs.FS(ctx, dir), ".", …)                       // or as an io/fs
//
// Writing whole files, which is atomic: a reader sees the old content or the
// new. The version is of the content; give back the one that you read, and
// nobody's change in between is lost.
//
//	version, err = dir.Put(ctx, "docs/a.md", strings.NewReader(text), vfs.If{Is: version})
//	if errors.Is(err, vfs.Conflict) { … }                      // read again, change again
//
// Attenuating: handing on less than you hold. It never comes back: what is
// derived from a read-only Dir is read-only.
//
//	docs := dir.SubDir("docs").ReadOnly()
//
// Delegating: making a locator of your own for somebody else, and taking it
// back. Whatever you handed on ends with your own capability, too.
//
//	line, revoker, err := conn.Share(ctx, docs)
//	err = revoker.Revoke(ctx)                                  // docs, for you, lives on
//
// # Promises
//
// Methods without an error result (SubDir, ReadOnly, OpenFile, Revocable) return
// at once. What they return is a promise, and calls on it are sent without
// waiting for it, so that a chain of them costs one round trip:
//
//	text, _, err := dir.SubDir("docs").ReadOnly().OpenFile("a.md").ReadText(ctx)
//
// What is wrong anywhere in the chain is the error of the call at its end.
//
// # Errors
//
// Every error is a [vfs.Code], with words that say what to do next: compare with
// errors.Is(err, vfs.NotFound), or fs.ErrNotExist, fs.ErrExist and
// fs.ErrPermission. Some that a program should expect: revoked (your capability
// was taken back, which can happen at any moment), denied (policy, whether or
// not the thing exists), readOnly, conflict, quota, and stale (the connection or
// the node is gone: dial or look again).
//
// A host may be as hostile as a guest: what makes no sense in its answers is
// corrupt.
//
// # Closing
//
// A Dir and a File are held by the host until Close, or until the connection
// ends; a program that runs for long closes what it opens. Every method may be
// called from several goroutines at once.
package client

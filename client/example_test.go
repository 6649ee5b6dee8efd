package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"

	"capd/client"
	"capd/vfs"
)

// A program needs nothing but a locator.
func Example() {
	ctx := context.Background()
	locator, stop := exampleHost() // another process, as a rule
	defer stop()

	conn, err := client.Dial(ctx, locator)
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	dir := conn.Dir(ctx)

	for entry, err := range dir.List(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(entry.Kind, entry.Name)
	}
	text, _, err := dir.OpenFile("README.md").ReadText(ctx)
	fmt.Println(text, err)

	_, _, err = dir.OpenFile("../secret").ReadText(ctx)
	fmt.Println(err)
	// Output:
	// file README.md
	// directory docs
	// Read me. <nil>
	// invalid: ../secret: ".." is not a name; a Dir has no parent to go to
}

// A chain of attenuations is one round trip: nothing waits before its end.
func ExampleDir_chain() {
	ctx, dir, stop := exampleGuest()
	defer stop()

	file := dir.SubDir("docs").ReadOnly().OpenFile("a.md")
	text, _, err := file.ReadText(ctx)
	fmt.Println(text, err)

	// The narrower capability stays narrow, whatever is derived from it.
	_, err = file.WriteText(ctx, "mine", vfs.If{})
	fmt.Println(errors.Is(err, vfs.ReadOnly))
	// Output:
	// Alpha. <nil>
	// true
}

// Two writers have read the same content. The second one to write is told that it is too
// late.
func ExampleDir_Put() {
	ctx, dir, stop := exampleGuest()
	defer stop()

	_, version, err := dir.OpenFile("docs/a.md").ReadText(ctx)
	if err != nil {
		log.Fatal(err)
	}
	_, err = dir.Put(ctx, "docs/a.md", strings.NewReader("Beta."), vfs.If{Is: version})
	fmt.Println("the first:", err)
	_, err = dir.Put(ctx, "docs/a.md", strings.NewReader("Gamma."), vfs.If{Is: version})
	fmt.Println("the second:", errors.Is(err, vfs.Conflict))
	_, err = dir.Put(ctx, "docs/new.md", strings.NewReader("Delta."), vfs.If{Absent: true})
	fmt.Println("a new file:", err)
	// Output:
	// the first: <nil>
	// the second: true
	// a new file: <nil>
}

// Share makes a locator for somebody else, and a Revoker that takes it back.
func ExampleConn_Share() {
	ctx := context.Background()
	locator, stop := exampleHost()
	defer stop()
	conn, err := client.Dial(ctx, locator)
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()

	// Pass on less than we hold: one directory, read-only.
	line, revoker, err := conn.Share(ctx, conn.Dir(ctx).SubDir("docs").ReadOnly())
	if err != nil {
		log.Fatal(err)
	}

	// Elsewhere, with the locator:
	other, err := client.Dial(ctx, line)
	if err != nil {
		log.Fatal(err)
	}
	defer other.Close()
	docs := other.Dir(ctx)
	text, _, err := docs.OpenFile("a.md").ReadText(ctx)
	fmt.Println(text, err)
	fmt.Println(errors.Is(docs.Remove(ctx, "a.md", vfs.If{}), vfs.ReadOnly))

	// Take it back.
	if err := revoker.Revoke(ctx); err != nil {
		log.Fatal(err)
	}
	_, _, err = docs.OpenFile("a.md").ReadText(ctx)
	fmt.Println(errors.Is(err, vfs.Revoked))
	// Output:
	// Alpha. <nil>
	// true
	// true
}

// Revocable is for a capability that is passed on within a program.
func ExampleDir_Revocable() {
	ctx, dir, stop := exampleGuest()
	defer stop()

	lent, revoker := dir.Revocable()
	file := lent.OpenFile("README.md") // derived, and so revoked with it
	_, _, err := file.ReadText(ctx)
	fmt.Println("before:", err)

	if err := revoker.Revoke(ctx); err != nil {
		log.Fatal(err)
	}
	_, _, err = file.ReadText(ctx)
	fmt.Println("after: ", err)
	_, _, err = dir.OpenFile("README.md").ReadText(ctx)
	fmt.Println("ours:  ", err)
	// Output:
	// before: <nil>
	// after:  revoked: README.md: the capability was taken back; ask its giver for another
	// ours:   <nil>
}

package mcp

import (
	"bytes"
	"context"
	"encoding/base64"
	"path"
	"strings"

	"capd/client"
	"capd/vfs"
	"capd/vfs/lines"
)

const headTail = `"tail":{"type":"number","description":"The last N lines"},"head":{"type":"number","description":"The first N lines"}`

var readTools = []tool{
	{
		name: "read_file", title: "Read File (Deprecated)", about: "As read_text_file. Deprecated.", needs: client.Read,
		hints: reads, in: onePath + "," + headTail, required: "path", out: versioned, run: handler(readText),
	},
	{
		name: "read_text_file", title: "Read Text File", needs: client.Read,
		about: "Read a file as text, or its first (head) or last (tail) lines. Answers the version of the content, for ifVersion of tools that write. For a part of a large file use read_lines.",
		hints: reads, in: onePath + "," + headTail, required: "path", out: versioned, run: handler(readText),
	},
	{
		name: "read_media_file", title: "Read Media File", needs: client.Read,
		about: "Read an image or a sound as such, and any other file as an embedded resource, in base64.",
		hints: reads, in: onePath, required: "path", out: mediaSchema, run: handler(readMedia),
	},
	{
		name: "read_multiple_files", title: "Read Multiple Files", needs: client.Read,
		about: "Read several files at once. One that fails has its error in its place.",
		hints: reads, in: `"paths":{"minItems":1,"type":"array","items":{"type":"string"},"description":"The files"}`, required: "paths", run: handler(readMultiple),
	},
}

type readArgs struct {
	Path       string
	Head, Tail number
}

// maxText is the size, in bytes, of the largest content that a tool answers whole.
const maxText = 4 << 20

func readText(ctx context.Context, s *service, a readArgs) (answer, error) {
	if a.Head > 0 && a.Tail > 0 {
		return answer{}, vfs.Errorf(vfs.Invalid, "Cannot specify both head and tail parameters simultaneously")
	}
	at, err := s.roots.In(a.Path)
	if err != nil {
		return answer{}, err
	}
	f := s.dir.OpenFile(at)
	defer f.Close()
	if n := max(a.Head, a.Tail).whole(lines.MaxCount); n > 0 {
		return someLines(ctx, f, n, a.Tail > 0, at)
	}
	data, v, err := f.ReadBytes(ctx)
	if err != nil {
		return answer{}, vfs.At(at, err)
	}
	return said(string(data)).with(v), nil
}

// someLines answers the first n lines of f, or the last, without the ending of the last of them.
func someLines(ctx context.Context, f *client.File, n int, last bool, at string) (answer, error) {
	w, err := f.ReadLines(ctx, lines.Query{Count: n, Last: last})
	if err != nil {
		return answer{}, vfs.At(at, err)
	}
	data := w.Data
	if len(w.Clipped) > 0 || w.Count < n && w.More || last && w.Count < n && (w.First == 0 || w.First > 1) {
		whole, v, err := f.ReadBytes(ctx) // some line is long, or they are more than a window takes
		if err != nil {
			return answer{}, vfs.At(at, err)
		}
		data, w.Version = ofLines(whole, n, last), v
	}
	return said(string(bytes.TrimSuffix(data, []byte("\n")))).with(w.Version), nil
}

// ofLines returns the first n lines of data, or the last.
func ofLines(data []byte, n int, last bool) []byte {
	all := bytes.SplitAfter(data, []byte("\n"))
	if len(all[len(all)-1]) == 0 {
		all = all[:len(all)-1]
	}
	if n < len(all) && last {
		all = all[len(all)-n:]
	}
	return bytes.Join(all[:min(n, len(all))], nil)
}

const mediaSchema = `{"type":"object","properties":{"content":{"type":"array","items":{"anyOf":[{"type":"object","properties":{"type":{"type":"string","enum":["image","audio"]},"data":{"type":"string"},"mimeType":{"type":"string"}},"required":["type","data","mimeType"],"additionalProperties":false},{"type":"object","properties":{"type":{"type":"string","const":"resource"},"resource":{"type":"object","properties":{"uri":{"type":"string"},"mimeType":{"type":"string"},"blob":{"type":"string"}},"required":["uri","blob"],"additionalProperties":false}},"required":["type","resource"],"additionalProperties":false}]}}},"required":["content"]}`

var mediaTypes = map[string]string{
	".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp", ".bmp": "image/bmp", ".svg": "image/svg+xml",
	".mp3": "audio/mpeg", ".wav": "audio/wav", ".ogg": "audio/ogg", ".flac": "audio/flac",
}

type pathArgs struct{ Path string }

func readMedia(ctx context.Context, s *service, a pathArgs) (answer, error) {
	at, err := s.roots.In(a.Path)
	if err != nil {
		return answer{}, err
	}
	f := s.dir.OpenFile(at)
	defer f.Close()
	data, _, err := f.ReadBytes(ctx)
	if err != nil {
		return answer{}, vfs.At(at, err)
	}
	kind, known := mediaTypes[strings.ToLower(path.Ext(at))]
	if !known {
		kind = "application/octet-stream"
	}
	text := `"` + base64.StdEncoding.EncodeToString(data) + `"`
	block := `{"type":"` + strings.SplitN(kind, "/", 2)[0] + `","data":` + text + `,"mimeType":"` + kind + `"}`
	if !known {
		block = `{"type":"resource","resource":{"uri":` + string(quoted(fileURL(s.roots.Out(at)))) + `,"mimeType":"` + kind + `","blob":` + text + `}}`
	}
	return answer{media: []byte(block)}, nil
}

// maxMultiple is how many files are read at once, and how many bytes of contents they may have.
const maxMultiple = 1000

func readMultiple(ctx context.Context, s *service, a struct{ Paths []string }) (answer, error) {
	if len(a.Paths) == 0 || len(a.Paths) > maxMultiple {
		return answer{}, vfs.Errorf(vfs.Invalid, "paths has %d files; name 1 to %d", len(a.Paths), maxMultiple)
	}
	parts, at, which := make([]string, len(a.Paths)), []string{}, []int{}
	for i, sent := range a.Paths {
		in, err := s.roots.In(sent)
		if err != nil {
			parts[i] = sent + ": Error - " + s.roots.refused(err).text
			continue
		}
		at, which = append(at, in), append(which, i)
	}
	const full = ": Error - tooLarge: together the files are larger than 4 MiB; read this one by itself"
	size, i := 0, 0
	for got, err := range s.dir.ReadMany(ctx, at) {
		if err != nil {
			return answer{}, err
		}
		sent := a.Paths[which[i]]
		switch size += len(got.Data); {
		case got.Err != nil:
			parts[which[i]] = sent + ": Error - " + s.roots.refused(vfs.At(at[i], got.Err)).text
		case size > maxText:
			parts[which[i]] = sent + full
		default:
			parts[which[i]] = sent + ":\n" + string(got.Data) + "\n"
		}
		if i++; size > maxText {
			break // the rest is not read
		}
	}
	for ; i < len(which); i++ {
		parts[which[i]] = a.Paths[which[i]] + full
	}
	return said(strings.Join(parts, "\n---\n")), nil
}

// Package openwop serves a directory of a capd host as the capability host.fs of OpenWOP (RFC 0014), to workflow engines that reach it over HTTP. It is
// a guest like any other: what the capability that it holds cannot do, no call can.
//
// An engine finds the advertisement at /.well-known/openwop, and calls POST /v1/host/sample/fs/METHOD with a JSON object, where METHOD is read, write,
// delete, stat or list. The answer is a JSON object; a refusal is {"error": {"code", "message"}} with a status of 4xx or 5xx.
package openwop

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"capd/client"
	"capd/front/roots"
	"capd/vfs"
)

// SandboxRoot is what engines call the directory, unless they are shown something else.
const SandboxRoot = "/workspace"

// MaxFileSize is the size, in bytes, of the largest file that is read or written.
const MaxFileSize = 4 << 20

// maxBody is the size, in bytes, of the largest request: a file in base64, and what is around it.
const maxBody = MaxFileSize*4/3 + 64<<10

// lookAgain is how often it is looked whether the capability lives.
const lookAgain = 2 * time.Second

// service serves one capability.
type service struct {
	dir   *client.Dir
	roots roots.Roots
}

// Open serves the guest who holds conn. It is for [capd/front/web.Door]. ended is closed when the capability has ended.
func Open(ctx context.Context, conn *client.Conn) (h http.Handler, ended <-chan struct{}, end func(), err error) {
	s := &service{dir: conn.Dir(ctx), roots: roots.Roots{{Shown: SandboxRoot}}}
	if _, err := s.dir.Rights(ctx); err != nil {
		s.dir.Close()
		return nil, nil, nil, err
	}
	watching, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() {
		defer close(over)
		s.watch(watching, conn)
	}()
	end = func() {
		cancel()
		<-over
		s.dir.Close()
	}
	return s.handler(), over, end, nil
}

// watch returns when the capability has ended, or ctx has.
func (s *service) watch(ctx context.Context, conn *client.Conn) {
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-conn.Done():
			return
		case <-tick.C:
		}
		_, err := s.dir.Rights(ctx)
		switch vfs.CodeOf(err) {
		case "", vfs.Busy, vfs.Limit:
		default:
			return
		}
	}
}

// Advertisement is what a host says of its capability fs, by the schema of RFC 0014.
type Advertisement struct {
	Supported        bool   `json:"supported"`
	SandboxRoot      string `json:"sandboxRoot"` // virtual: it is no path of the host
	MaxFileSizeBytes int64  `json:"maxFileSizeBytes"`
	Image            struct {
		Supported bool `json:"supported"`
	} `json:"image"`
	PDF struct {
		Supported bool `json:"supported"`
	} `json:"pdf"`
	Transport struct {
		FTP  bool `json:"ftp"`
		SFTP bool `json:"sftp"`
		SSH  bool `json:"ssh"`
	} `json:"transport"`
}

func (s *service) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openwop", func(w http.ResponseWriter, _ *http.Request) {
		fs := Advertisement{Supported: true, SandboxRoot: s.roots[0].Shown, MaxFileSizeBytes: MaxFileSize}
		reply(w, http.StatusOK, map[string]any{"protocolVersion": "1.0", "fs": fs, "capabilities": map[string]any{"fs": fs}})
	})
	for name, do := range map[string]func(context.Context, *service, request) (any, error){
		"read": read, "write": write, "delete": remove, "stat": stat, "list": list,
	} {
		mux.HandleFunc("POST /v1/host/sample/fs/"+name, func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, do) })
	}
	return mux
}

// request has the arguments of all methods.
type request struct {
	Path      string  `json:"path"`
	Content   *string `json:"content"`
	Encoding  string  `json:"encoding"` // utf8 or base64; "" is utf8 to write, and to read what the content needs
	IfVersion string  `json:"ifVersion"`

	at string // in the Dir
}

func (s *service) serve(w http.ResponseWriter, r *http.Request, do func(context.Context, *service, request) (any, error)) {
	var q request
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	switch {
	case err != nil:
		err = vfs.Errorf(vfs.TooLarge, "the request is larger than a file may be")
	case json.Unmarshal(body, &q) != nil:
		err = vfs.Errorf(vfs.Invalid, "the body is no JSON object with a path")
	case q.Encoding != "" && q.Encoding != "utf8" && q.Encoding != "base64":
		err = vfs.Errorf(vfs.Invalid, "encoding is utf8 or base64")
	default:
		q.at, err = s.roots.In(q.Path)
	}
	var answer any
	if err == nil {
		answer, err = do(r.Context(), s, q)
	}
	if err != nil {
		s.refuse(w, q, err)
		return
	}
	reply(w, http.StatusOK, answer)
}

func reply(w http.ResponseWriter, status int, answer any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer) // if the client is gone nobody is told
}

// refusals say which code and which status of HTTP a code of capd is. Any other is fs_internal.
var refusals = map[vfs.Code]struct {
	code   string
	status int
}{
	vfs.Outside:    {"path_outside_sandbox", http.StatusForbidden},
	vfs.TooLarge:   {"file_too_large", http.StatusRequestEntityTooLarge},
	vfs.Denied:     {"fs_permission_denied", http.StatusForbidden},
	vfs.ReadOnly:   {"fs_permission_denied", http.StatusForbidden},
	vfs.AskDenied:  {"fs_permission_denied", http.StatusForbidden},
	vfs.AskTimeout: {"fs_permission_denied", http.StatusForbidden},
	vfs.Revoked:    {"fs_permission_denied", http.StatusForbidden},
	vfs.Expired:    {"fs_permission_denied", http.StatusForbidden},
	vfs.NotFound:   {"fs_not_found", http.StatusNotFound},
	vfs.Conflict:   {"fs_conflict", http.StatusConflict},
	vfs.Exists:     {"fs_exists", http.StatusConflict},
	vfs.NotEmpty:   {"fs_not_empty", http.StatusConflict},
	vfs.IsDir:      {"fs_is_directory", http.StatusBadRequest},
	vfs.NotDir:     {"fs_not_a_directory", http.StatusBadRequest},
	vfs.NotRegular: {"fs_not_a_file", http.StatusBadRequest},
	vfs.Invalid:    {"invalid_path", http.StatusBadRequest},
	vfs.Limit:      {"fs_limit", http.StatusTooManyRequests},
	vfs.Quota:      {"fs_quota", http.StatusInsufficientStorage},
	vfs.Busy:       {"fs_busy", http.StatusServiceUnavailable},
	vfs.Stale:      {"fs_stale", http.StatusConflict},
}

func (s *service) refuse(w http.ResponseWriter, q request, err error) {
	out, isOut := errors.AsType[roots.Outside](err)
	code := vfs.CodeOf(err)
	if isOut {
		code = vfs.Outside
	}
	r, known := refusals[code]
	if !known {
		r.code, r.status = "fs_internal", http.StatusInternalServerError
	}
	text := vfs.Message(err)
	switch {
	case isOut:
		text = out.Error()
	case code == vfs.Outside:
		text = "a link leads out of " + s.roots[0].Shown
	}
	reply(w, r.status, map[string]any{"error": map[string]any{"code": r.code, "message": text, "path": q.Path, "capability": "host.fs"}})
}

// content returns bytes in an encoding: if that is "" as text if they are, and in base64 otherwise.
func content(data []byte, encoding string) (text, as string) {
	if encoding == "base64" || encoding == "" && !utf8.Valid(data) {
		return base64.StdEncoding.EncodeToString(data), "base64"
	}
	return strings.ToValidUTF8(string(data), "\uFFFD"), "utf8"
}

func read(ctx context.Context, s *service, q request) (any, error) {
	f := s.dir.OpenFile(q.at)
	defer f.Close()
	data, v, err := f.ReadBytes(ctx)
	if err != nil {
		return nil, err
	}
	text, encoding := content(data, q.Encoding)
	return map[string]any{"content": text, "encoding": encoding, "sizeBytes": len(data), "version": v.String()}, nil
}

func write(ctx context.Context, s *service, q request) (any, error) {
	if q.Content == nil {
		return nil, vfs.Errorf(vfs.Invalid, "write needs content")
	}
	data := []byte(*q.Content)
	if q.Encoding == "base64" {
		var err error
		if data, err = base64.StdEncoding.DecodeString(*q.Content); err != nil {
			return nil, vfs.Errorf(vfs.Invalid, "content is not base64")
		}
	}
	if len(data) > MaxFileSize {
		return nil, vfs.Errorf(vfs.TooLarge, "the content has %d bytes, and a file at most %d", len(data), MaxFileSize)
	}
	c, err := condition(q.IfVersion)
	if err != nil {
		return nil, err
	}
	v, err := s.dir.Put(ctx, q.at, strings.NewReader(string(data)), c)
	if err != nil {
		return nil, err
	}
	return map[string]any{"sizeBytes": len(data), "version": v.String()}, nil
}

func condition(version string) (vfs.If, error) {
	if version == "" {
		return vfs.If{}, nil
	}
	v, err := vfs.ParseVersion(version)
	return vfs.If{Is: v}, err
}

func remove(ctx context.Context, s *service, q request) (any, error) {
	if q.at == "" {
		return nil, vfs.Errorf(vfs.Denied, "the root itself is not deleted")
	}
	c, err := condition(q.IfVersion)
	if err != nil {
		return nil, err
	}
	if err := s.dir.RemovePath(ctx, q.at, c); err != nil {
		return nil, err
	}
	return map[string]any{"deleted": true}, nil
}

// node is a file or a directory as a client sees it.
type node struct {
	Name       string `json:"name,omitempty"`
	Path       string `json:"path"`
	Type       string `json:"type"` // file, directory, symlink or other
	SizeBytes  int64  `json:"sizeBytes"`
	ModifiedAt string `json:"modifiedAt,omitempty"`
}

func (s *service) node(at string, info vfs.Info) node {
	n := node{Path: s.roots.Out(at), Type: info.Kind.String(), SizeBytes: info.Size}
	if info.ModifiedMs != 0 {
		n.ModifiedAt = time.UnixMilli(info.ModifiedMs).UTC().Format(time.RFC3339Nano)
	}
	return n
}

func stat(ctx context.Context, s *service, q request) (any, error) {
	if q.at == "" {
		info, err := s.dir.Stat(ctx)
		return s.node("", info), err
	}
	info, err := s.dir.WalkStat(ctx, q.at, true)
	return s.node(q.at, info), err
}

// maxListed is how many entries of a directory are listed.
const maxListed = 100_000

func list(ctx context.Context, s *service, q request) (any, error) {
	entries := []node{}
	for e, err := range s.dir.WalkList(ctx, q.at, true) {
		if err != nil {
			return nil, err
		}
		if len(entries) == maxListed {
			return nil, vfs.Errorf(vfs.TooLarge, "the directory has more than %d entries", maxListed)
		}
		n := s.node(vfs.Join(q.at, e.Name), e.Info)
		n.Name = vfs.Printable(e.Name)
		entries = append(entries, n)
	}
	return map[string]any{"entries": entries}, nil
}

// What is there: lists, nodes, globs, and reading.

#include "guest.h"

// page is one page of a list.
static capnp::RemotePromise<Dir::ListResults> page(Dir::Client dir, kj::ArrayPtr<const kj::byte> after, uint limit) {
  return call(dir.listRequest(), [&](auto& p) {
    p.setAfter(after);
    p.setLimit(limit);
    p.setWithStat(true);
  });
}

// rawName is a name's bytes, also where they are no text.
static kj::ArrayPtr<const kj::byte> rawName(Stat::Reader s) { return s.getRawName().size() > 0 ? s.getRawName() : s.getName().asBytes(); }

// Every entry, by pages of different sizes, in byte order of raw names.
SCENARIO(list) {
  auto many = subDir(guest.dir, "many");
  for (uint limit : {0u, 7u, 999u}) {
    kj::Array<kj::byte> after;
    uint entries = 0, pages = 0;
    uint64_t bytes = 0;
    for (bool more = true; more; pages++) {
      auto p = guest(page(many, after, limit));
      KJ_ASSERT(p.getEntries().size() > 0 && p.getEntries().size() <= (limit == 0 ? 1000 : limit));
      for (auto e : p.getEntries()) {
        auto name = rawName(e);
        KJ_ASSERT(std::string((char*)after.begin(), after.size()) < std::string((char*)name.begin(), name.size()), e.getName());
        KJ_ASSERT(e.getType() == Type::FILE && e.getModifiedMs() > 0);
        after = kj::heapArray(name);
        bytes += e.getSizeBytes();
        entries++;
      }
      more = p.getMore();
    }
    say("listed", entries, bytes, pages);
  }
  auto all = guest(page(guest.dir, nullptr, 0));
  for (auto e : all.getEntries()) {
    say("entry", kj::encodeUriComponent(rawName(e)), (uint)e.getType(), e.getType() == Type::FILE ? e.getSizeBytes() : 0, e.getExecutable());
  }
}

SCENARIO(glob) {
  for (auto pattern : {"**/*.md", "docs/**", "{a,exec}.*", "many/f*7", "none*"}) {
    kj::Array<kj::byte> cursor;
    kj::String all = kj::str();
    uint count = 0;
    for (bool more = true; more;) {
      auto p = guest(call(guest.dir.globRequest(), [&](auto& g) {
        g.setPattern(pattern);
        g.setAfter(cursor);
        g.setLimit(100);
      }));
      for (auto e : p.getEntries()) {
        if (count++ < 5) all = kj::str(all, " ", e.getName());
      }
      more = p.getMore();
      cursor = kj::heapArray(p.getCursor());
    }
    say("glob", pattern, count, all.size() > 0 ? all.slice(1) : kj::StringPtr("-"));
  }
  auto tree = guest(call(guest.dir.treeRequest(), [](auto& t) {
    t.setDepth(1);
    t.setLimit(4);
  }));
  for (auto b : tree.getBranches()) say("tree", b.getDepth(), b.getStat().getName(), b.getMore(), b.getLeft());
  refused(guest, "invalid", call(guest.dir.globRequest(), [](auto& g) { g.setPattern("[a"); }));
}

// grep searches below path, a page of one line at a time.
static void grep(Guest& guest, kj::StringPtr path, kj::StringPtr pattern) {
  kj::Array<kj::byte> cursor;
  for (bool more = true; more;) {
    auto p = guest(call(guest.dir.grepRequest(), [&](auto& g) {
      g.setPath(path);
      auto what = g.initWhat();
      what.setPattern(pattern);
      what.setWords(true);
      what.initOnly(1).set(0, "*.md");
      g.setAfter(cursor);
      g.setLimit(1);
    }));
    say("grep", path.size() > 0 ? path : "-", "more", p.getMore());
    for (auto f : p.getFound()) {
      say(f.getName());
      for (auto l : f.getLines()) say(l.getNumber(), l.getText(), l.getMatch() ? "match" : "around");
    }
    more = p.getMore();
    cursor = kj::heapArray(p.getCursor());
  }
}

SCENARIO(grep) {
  grep(guest, "", "docs|deep");
  grep(guest, "docs/deep/c.md", "deep");
  refused(guest, "invalid", call(guest.dir.grepRequest(), [](auto& g) { g.initWhat().setPattern("(a"); }));
  refused(guest, "notFound", call(guest.dir.grepRequest(), [](auto& g) { g.setPath("none"); }));
}

static kj::String describe(Node::Reader n) {
  auto stat = n.getStat();
  switch (n.which()) {
    case Node::DIR: return kj::str("dir ", stat.getName());
    case Node::FILE: return kj::str("file ", stat.getName(), " ", stat.getSizeBytes(), " ", stat.getExecutable());
    case Node::LINK: return kj::str("link ", stat.getName(), " to \"", n.getLink().getTarget(), "\" outside ", n.getLink().getOutside());
  }
  KJ_UNREACHABLE;
}

SCENARIO(nodes) {
  for (auto name : {"a.md", "docs", "exec.sh", "link", "out"}) {
    say("get", describe(guest(call(guest.dir.getRequest(), [&](auto& p) { p.setName(name); })).getNode()));
  }
  for (auto path : {"docs/deep", "docs/deep/c.md", "link", "docs/up/a.md"}) {
    for (bool noFollow : {false, true}) {
      say("walk", describe(guest(call(guest.dir.walkRequest(), [&](auto& p) {
            p.setPath(path);
            p.setNoFollow(noFollow);
          })).getNode()));
    }
  }
  // What a node holds is a capability like any other.
  auto walked = guest(call(guest.dir.walkRequest(), [](auto& p) { p.setPath("docs"); }));
  say("text", readText(guest, openFile(walked.getNode().getDir(), "b.md")));
  auto opened = call(guest.dir.openDirRequest(), [](auto& p) { p.setPath("docs/deep"); }).getDir();
  auto dir = guest(call(opened.statRequest()));
  KJ_ASSERT(dir.getStat().getType() == Type::DIRECTORY && dir.getStat().getVersion().size() == 0);
  auto file = guest(call(openFile(opened, "c.md").statRequest(), [](auto& p) { p.setWithVersion(true); }));
  say("stat", file.getStat().getSizeBytes(), hex(file.getStat().getVersion()));
}

// Whole, and in ranges of which many are asked for at once.
SCENARIO(read) {
  auto text = guest(call(openFile(guest.dir, "a.md").readTextRequest()));
  say("text", text.getText(), hex(text.getVersion()));
  refused(guest, "invalid", call(openFile(guest.dir, "latin1").readTextRequest()));

  auto lines = guest(call(openFile(guest.dir, "latin1").readLinesRequest(), [](auto& p) { p.setStart(1); }));
  say("lines", lines.getData().size(), lines.getFirst(), lines.getCount(), lines.getNext(), lines.getMore(), lines.getLines(), hex(lines.getVersion()));

  auto many = guest(call(guest.dir.readManyRequest(), [](auto& p) { p.setPaths({"latin1", "none"}); })).getFiles();
  say("many", many.size(), many[0].getData().size(), hex(many[0].getVersion()), many[1].getError());

  auto changed = guest(call(guest.dir.changedSinceRequest(), [&](auto& p) {
    auto known = p.initKnown(3);
    known[0].setPath("latin1");
    known[0].setVersion(lines.getVersion());
    known[1].setPath("none");
    known[2].setPath("a.md");
    known[2].setVersion(lines.getVersion());
  }));
  say("changed", changed.getLooked(), changed.getChanged().size(), changed.getChanged()[0].getIndex(), hex(changed.getChanged()[0].getVersion()));

  auto big = openFile(guest.dir, "big");
  auto whole = guest(call(big.readBytesRequest()));
  Digest of;
  of.add(whole.getData());
  say("bytes", of, hex(whole.getVersion()));

  const uint part = 100'000;
  kj::Vector<capnp::RemotePromise<File::ReadResults>> parts;
  for (uint64_t at = 0; at < whole.getData().size(); at += part) {
    parts.add(call(big.readRequest(), [&](auto& p) {
      p.setOffset(at);
      p.setLength(part);
    }));
  }
  Digest ofParts;
  for (auto& p : parts) {
    auto r = guest(p);
    KJ_ASSERT(r.getData().size() == part || r.getEof());
    KJ_ASSERT(r.getEof() == (ofParts.size + part > of.size));
    ofParts.add(r.getData());
  }
  say("parts", ofParts, parts.size());
  auto past = guest(call(big.readRequest(), [&](auto& p) {
    p.setOffset(of.size + 1);
    p.setLength(1);
  }));
  KJ_ASSERT(past.getData().size() == 0 && past.getEof());
  refused(guest, "tooLarge", call(big.readRequest(), [](auto& p) { p.setLength((1 << 20) + 1); }));
}

// A locator of one file.
SCENARIO(file) {
  say("text", readText(guest, guest.file));
  auto stat = guest(call(guest.file.statRequest()));
  say("stat", stat.getStat().getSizeBytes(), stat.getStat().getName() == nullptr);
  guest(call(guest.file.appendRequest(), [](auto& p) { p.setData(kj::StringPtr(" more").asBytes()); }));
  say("text", readText(guest, guest.file));
}

// Steps of every kind, and a change of which one step is refused.
// A zip file that holds nothing becomes a directory, and what is no archive is refused.
SCENARIO(extract) {
  auto extract = [&](kj::StringPtr path, kj::StringPtr newPath) {
    return call(guest.dir.extractRequest(), [&](auto& p) { p.setPath(path); p.setNewPath(newPath); });
  };
  kj::byte nothing[22] = {'P', 'K', 5, 6};
  guest(call(guest.dir.putRequest(), [&](auto& p) { p.setPath("z.zip"); p.setData(kj::arrayPtr(nothing, 22)); }));
  auto got = guest(extract("z.zip", "docs/out"));
  say("extracted", got.getEntries(), got.getSizeBytes());
  refused(guest, "invalid", extract("a.md", "docs/none"));
  refused(guest, "exists", extract("z.zip", "a.md"));
  refused(guest, "notFound", extract("none.zip", "docs/none"));
}
SCENARIO(change) {
  auto change = [&](kj::StringPtr removed) {
    return call(guest.dir.changeRequest(), [&](auto& p) {
      auto steps = p.initSteps(4);
      steps[0].setPath("made");
      steps[0].setCreateDir();
      steps[1].setPath("a.md");
      auto edit = steps[1].initEdit().initEdits(1)[0];
      edit.setOld(kj::StringPtr("hello").asBytes());
      edit.setNew(kj::StringPtr("bye").asBytes());
      steps[2].setPath("a.md");
      steps[2].initMove().setTo("made/a.md");
      steps[3].setPath(removed);
      steps[3].setRemove();
    });
  };
  refused(guest, "notFound", change("none"));
  auto got = guest(change("latin1"));
  for (auto v : got.getVersions()) say("left", v.size());
}

// A patch of two files, and one that does not fit.
SCENARIO(patch) {
  auto patch = [&](kj::StringPtr text, bool dry) {
    return call(guest.dir.patchRequest(), [&](auto& p) { p.setText(text.asBytes()); p.setDryRun(dry); });
  };
  auto show = [&](auto&& got) {
    for (auto f : got.getFiles()) {
      KJ_ASSERT(f.getVersion().size() == 32 && f.getDiff().size() > 0 && f.getSource() == nullptr);
      say("patched", f.getPath(), f.getChanged()[0].getFirst(), f.getChanged()[0].getCount(), f.getWas().size() == 32);
    }
  };
  show(guest(patch("*** Begin Patch\n*** Update File: a.md\n-hello\n+bye\n*** Add File: new/f\n+made\n*** End Patch\n", false)));
  refused(guest, "conflict", patch("--- a/a.md\n+++ b/a.md\n@@ -1 +1 @@\n-hello\n+bye\n", false));
  refused(guest, "invalid", patch("hello", false));
  show(guest(patch("--- a/a.md\n+++ b/a.md\n@@ -1 +1 @@\n-bye\n+hello\n", true)));
}

// A copy of a directory, and two that are refused.
SCENARIO(copy) {
  auto copy = [&](kj::StringPtr path, kj::StringPtr newPath, bool replace) {
    return call(guest.dir.copyRequest(), [&](auto& p) { p.setPath(path); p.setNewPath(newPath); p.setReplace(replace); });
  };
  auto show = [&](auto&& got) { say("copied", got.getEntries(), got.getSizeBytes()); };
  show(guest(copy("docs/deep", "uno", false)));
  refused(guest, "exists", copy("a.md", "uno/c.md", false));
  show(guest(copy("a.md", "uno/c.md", true)));
  show(guest(copy("a.md", "uno/c.md", true)));  // the same content is there
  refused(guest, "outside", copy("docs", "dos", false));  // a link in it leads out
  refused(guest, "invalid", copy("uno", "uno/in", false));
}

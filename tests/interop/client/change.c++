// What changes something: files, trees, moves, and what narrows the right to it.

#include "guest.h"

#include <memory>

// If sets a condition on a call's parameters.
struct If {
  enum Kind { ANY, ABSENT, IS } kind = ANY;
  kj::ArrayPtr<const kj::byte> version;
  template <typename Params>
  void operator()(Params& p) const {
    if (kind == ABSENT) p.initIfVersion().setAbsent();
    if (kind == IS) p.initIfVersion().setEquals(version);
  }
};

static If is(kj::ArrayPtr<const kj::byte> version) { return {If::IS, version}; }

static capnp::RemotePromise<Dir::PutResults> putIf(Dir::Client dir, kj::StringPtr path, kj::StringPtr text, If condition) {
  return call(dir.putRequest(), [&](auto& p) {
    p.setPath(path);
    p.setData(text.asBytes());
    condition(p);
  });
}

static capnp::RemotePromise<File::WriteTextResults> writeText(File::Client file, kj::StringPtr text, If condition = {}) {
  return call(file.writeTextRequest(), [&](auto& p) {
    p.setText(text);
    condition(p);
  });
}

static capnp::RemotePromise<File::WriteResults> write(File::Client file, uint64_t offset, kj::StringPtr text, If condition = {}) {
  return call(file.writeRequest(), [&](auto& p) {
    p.setOffset(offset);
    p.setData(text.asBytes());
    condition(p);
  });
}

static capnp::RemotePromise<File::AppendResults> append(File::Client file, kj::StringPtr text, If condition = {}) {
  return call(file.appendRequest(), [&](auto& p) {
    p.setData(text.asBytes());
    condition(p);
  });
}

static capnp::RemotePromise<File::TruncateResults> truncate(File::Client file, uint64_t size, If condition = {}) {
  return call(file.truncateRequest(), [&](auto& p) {
    p.setSizeBytes(size);
    condition(p);
  });
}

// Whole files, under conditions.
SCENARIO(wholes) {
  auto first = guest(putIf(guest.dir, "new", "one", {If::ABSENT, nullptr}));
  refused(guest, "conflict", putIf(guest.dir, "new", "two", {If::ABSENT, nullptr}));
  auto second = guest(putIf(guest.dir, "new", "two", is(first.getVersion())));
  refused(guest, "conflict", putIf(guest.dir, "new", "three", is(first.getVersion())));
  auto file = openFile(guest.dir, "new");
  auto third = guest(writeText(file, "three", is(second.getVersion())));
  refused(guest, "conflict", writeText(file, "four", is(second.getVersion())));
  auto fourth = guest(call(file.writeBytesRequest(), [&](auto& p) {
    p.setData(kj::StringPtr("four").asBytes());
    is(third.getVersion())(p);
  }));
  say("version", hex(fourth.getVersion()));
  say("text", readText(guest, file));

  // A link is followed, unless the call says not to.
  guest(put(guest.dir, "link", "by the link"));
  refused(guest, "notRegular", call(guest.dir.putRequest(), [](auto& p) {
    p.setPath("link");
    p.setNoFollow(true);
  }));

  auto writer = call(guest.dir.stageRequest(), [](auto& p) {
    p.setPath("staged");
    p.initIfVersion().setAbsent();
  }).getWriter();
  guest(call(writer.writeRequest(), [](auto& p) { p.setData(kj::StringPtr("in ").asBytes()); }));
  guest(call(writer.writeRequest(), [](auto& p) { p.setData(kj::StringPtr("parts").asBytes()); }));
  say("staged", hex(guest(call(writer.commitRequest())).getVersion()));
  refused(guest, "invalid", call(writer.commitRequest()));
}

SCENARIO(inplace) {
  auto file = call(guest.dir.createFileRequest(), [](auto& p) { p.setPath("docs/grown"); }).getFile();
  guest(write(file, 4, "gap before"));
  say("offset", guest(append(file, " and after")).getOffset());
  guest(write(file, 0, "no "));
  auto version = kj::heapArray(guest(call(file.statRequest(), [](auto& p) { p.setWithVersion(true); })).getStat().getVersion());
  guest(truncate(file, 14, is(version)));
  refused(guest, "conflict", truncate(file, 0, is(version)));
  refused(guest, "conflict", write(file, 0, "late", is(version)));
  refused(guest, "conflict", append(file, "late", is(version)));
  guest(truncate(file, 16));
  guest(call(file.setAttributesRequest(), [](auto& p) {
    p.initAttributes().getExecutable().setSet(true);
    p.getAttributes().getModified().setMs(1000);
  }));
  auto stat = guest(call(file.statRequest())).getStat();
  say("executable", stat.getExecutable() ? "yes" : "no");
  refused(guest, "invalid", call(file.setAttributesRequest()));
  guest(call(file.syncRequest()));
  auto bytes = guest(call(file.readBytesRequest()));
  say("bytes", hex(bytes.getData()), hex(bytes.getVersion()));

  auto edit = [&] {
    return call(openFile(guest.dir, "a.md").editRequest(), [](auto& p) {
      auto e = p.initEdits(1)[0];
      e.setOld(kj::StringPtr("ell").asBytes());
      e.setNew(kj::StringPtr("ey\nl").asBytes());
    });
  };
  auto made = guest(edit());
  say("edited", made.getChanged()[0].getCount(), made.getReplaced(), hex(made.getVersion()));
  refused(guest, "conflict", edit());
}

static capnp::RemotePromise<Dir::RemoveResults> remove(Dir::Client dir, kj::StringPtr path, If condition = {}) {
  return call(dir.removeRequest(), [&](auto& p) {
    p.setPath(path);
    condition(p);
  });
}

static capnp::Request<Dir::MoveParams, Dir::MoveResults> moving(Dir::Client from, kj::StringPtr path, kj::StringPtr newPath) {
  used("Dir.move");
  auto r = from.moveRequest();
  r.setPath(path);
  r.setNewPath(newPath);
  return r;
}

// Host is a directory of the guest's own, which capd must not call.
struct Host final : public Dir::Server {
  explicit Host(std::shared_ptr<bool> wasCalled) : wasCalled(kj::mv(wasCalled)) {}
  kj::Promise<void> put(PutContext) override {
    *wasCalled = true;
    return kj::READY_NOW;
  }
  kj::Promise<void> list(ListContext) override {
    *wasCalled = true;
    return kj::READY_NOW;
  }
  std::shared_ptr<bool> wasCalled;
};

SCENARIO(tree) {
  // Four levels, in one round trip: the capabilities are all promises yet.
  auto dir = guest.dir;
  for (auto name : {"one", "two", "three"}) {
    dir = call(dir.createDirRequest(), [&](auto& p) { p.setPath(name); }).getDir();
  }
  auto file = call(dir.createFileRequest(), [](auto& p) { p.setPath("leaf"); }).getFile();
  auto moved = moving(guest.dir, "a.md", "moved.md");
  moved.setDst(dir);
  guest(moved.send());
  guest(writeText(file, "of the tree"));
  say("moved", readText(guest, openFile(guest.dir, "one/two/three/moved.md")));
  guest(moving(guest.dir, "docs/b.md", "c.md").send());  // no dst: within the same
  refused(guest, "exists", moving(dir, "leaf", "moved.md").send());
  auto version = guest(call(openFile(dir, "moved.md").statRequest(), [](auto& p) { p.setWithVersion(true); }));
  auto over = moving(dir, "leaf", "moved.md");
  over.initIfTarget().setEquals(version.getStat().getVersion());
  guest(over.send());

  refused(guest, "exists", call(guest.dir.createDirRequest(), [](auto& p) { p.setPath("one"); }));
  refused(guest, "invalid", call(guest.dir.changesRequest(), [](auto& p) { p.setCursor(kj::StringPtr("no cursor").asBytes()); }));
  refused(guest, "notFound", call(openFile(call(guest.dir.tempRequest()).getDir(), "none").statRequest()));
  auto linking = [&](auto target) {
    return call(guest.dir.symlinkRequest(), [&](auto& p) {
      p.setPath("one/to");
      p.setTarget(target);
    });
  };
  guest(linking("../docs"));
  guest(openFile(guest.dir, "one/to/deep/c.md").statRequest().send());
  refused(guest, "outside", linking("../../docs"));
  refused(guest, "exists", call(guest.dir.createFileRequest(), [](auto& p) { p.setPath("link"); }));
  refused(guest, "notEmpty", remove(guest.dir, "one"));
  refused(guest, "conflict", remove(guest.dir, "latin1", is(version.getStat().getVersion())));
  guest(remove(guest.dir, "link"));  // the link and not what it leads to
  guest(remove(guest.dir, "latin1"));

  // A target that the host does not serve is refused, and not called: one that the guest hosts, and one that it holds on
  // another connection.
  auto wasCalled = std::make_shared<bool>(false);
  auto abroad = moving(guest.dir, "exec.sh", "x");
  abroad.setDst(kj::heap<Host>(wasCalled));
  refused(guest, "unsupported", abroad.send());
  Guest other(guest.world);
  auto proxied = moving(guest.dir, "exec.sh", "x");
  proxied.setDst(other.dir);
  refused(guest, "unsupported", proxied.send());
  KJ_ASSERT(!*wasCalled);
}

SCENARIO(attenuate) {
  // What is handed out is less, and stays less.
  auto narrow = call(subDir(guest.dir, "docs").readOnlyRequest()).getDir();
  refused(guest, "readOnly", put(narrow, "b.md", "changed"));
  refused(guest, "readOnly", put(subDir(narrow, "deep"), "c.md", "changed"));
  refused(guest, "invalid", call(narrow.openFileRequest(), [](auto& p) { p.setPath("../a.md"); }));
  auto file = call(openFile(guest.dir, "a.md").readOnlyRequest()).getFile();
  refused(guest, "readOnly", writeText(file, "changed"));
  say("text", readText(guest, file));

  // What was taken back is so with all that came of it, and nothing else is.
  auto lent = guest(call(guest.dir.revocableRequest()));
  auto deep = subDir(lent.getDir(), "docs/deep"), deeper = call(deep.readOnlyRequest()).getDir();
  auto derived = openFile(deeper, "c.md");
  auto staged = call(lent.getDir().stageRequest(), [](auto& p) { p.setPath("never"); }).getWriter();
  guest(put(deep, "written", "before"));
  say("derived", readText(guest, derived));
  guest(call(lent.getRevoker().revokeRequest()));
  refused(guest, "revoked", call(lent.getDir().statRequest()));
  refused(guest, "revoked", call(deep.listRequest()));
  refused(guest, "revoked", call(deeper.statRequest()));
  refused(guest, "revoked", call(derived.readTextRequest()));
  refused(guest, "revoked", call(staged.commitRequest()));

  auto lentFile = call(openFile(guest.dir, "a.md").revocableRequest());
  guest(writeText(lentFile.getFile(), "lent"));
  guest(call(lentFile.getRevoker().revokeRequest()));
  refused(guest, "revoked", writeText(lentFile.getFile(), "late"));
  guest(call(lentFile.getRevoker().revokeRequest()));
  say("text", readText(guest, openFile(guest.dir, "a.md")));
}

static std::string words(capnp::List<Right>::Reader rights) {
  std::string all;
  for (auto right : rights) all += (all.empty() ? "" : ",") + std::string(kj::str(right).cStr());
  return all;
}

SCENARIO(rights) {
  // Some rights, and two that no host knows yet: those are dropped. It is all one chain.
  auto box = call(guest.dir.narrowRequest(), [](auto& p) {
    auto keep = p.initKeep(4);
    keep.set(0, Right::LIST);
    keep.set(1, static_cast<Right>(9));
    keep.set(2, Right::WRITE);
    keep.set(3, static_cast<Right>(65535));
  }).getDir();
  auto file = openFile(box, "a.md");
  auto text = call(file.readTextRequest());
  auto dropped = put(subDir(box, "docs"), "dropped", "into the box");
  say("dir", words(guest(call(box.rightsRequest())).getRights()));
  refused(guest, "denied", text);
  guest(dropped);
  refused(guest, "denied", call(box.statRequest()));
  refused(guest, "readOnly", call(box.removeRequest(), [](auto& p) { p.setPath("a.md"); }));

  // Nothing brings a right back, and an empty list keeps none.
  auto none = call(file.narrowRequest()).getFile();
  auto all = call(file.narrowRequest(), [](auto& p) {
    auto keep = p.initKeep(8);
    for (uint i = 0; i < 8; i++) keep.set(i, static_cast<Right>(i));
  }).getFile();
  say("none", guest(call(none.rightsRequest())).getRights().size());
  say("file", words(guest(call(all.rightsRequest())).getRights()));
}

// One call for each code that a guest can meet here, each answered with the code's own type. It is granted the whole
// namespace.
SCENARIO(errors) {
  auto own = subDir(guest.dir, "project/errors");
  refused(guest, "notFound", call(openFile(own, "nowhere/x").statRequest()));
  refused(guest, "notDir", call(subDir(own, "a.md").statRequest()));
  refused(guest, "isDir", call(openFile(own, "docs").statRequest()));
  refused(guest, "invalid", call(subDir(own, "/docs").statRequest()));
  refused(guest, "invalid", call(subDir(own, "docs/../docs").statRequest()));
  refused(guest, "invalid", call(own.getRequest(), [](auto& p) { p.setName("docs/b.md"); }));
  refused(guest, "outside", call(own.walkRequest(), [](auto& p) { p.setPath("out/f"); }));
  refused(guest, "limit", call(own.walkRequest(), [](auto& p) { p.setPath("loop"); }));
  refused(guest, "denied", call(own.getRequest(), [](auto& p) { p.setName(".env"); }));
  refused(guest, "denied", put(own, "docs/.env", "x"));
  refused(guest, "askDenied", put(own, ".git/config", "x"));
  refused(guest, "tooLarge", write(openFile(own, "a.md"), 0, kj::str(kj::repeat('x', (1 << 20) + 1))));
  auto tmp = subDir(guest.dir, "tmp");  // another store; nobody can tell
  auto there = moving(own, "a.md", "a.md");
  there.setDst(tmp);
  guest(there.send());
  auto back = moving(tmp, "a.md", "a.md");
  back.setDst(own);
  guest(back.send());
  refused(guest, "busy", remove(guest.dir, "tmp"));
  auto gone = call(own.createDirRequest(), [](auto& p) { p.setPath("gone"); }).getDir();
  guest(call(gone.statRequest()));
  guest(remove(own, "gone"));
  refused(guest, "stale", call(gone.listRequest()));

  // Nonsense is refused, call for call, and the connection lives.
  refused(guest, "invalid", call(own.putRequest(), [](auto& p) {
    p.setPath("x");
    p.initIfVersion().setEquals(kj::StringPtr("short").asBytes());
  }));
  refused(guest, "invalid", call(openFile(own, "a.md").streamRequest()));
  KJ_IF_MAYBE(e, kj::runCatchingExceptions([&] { guest(own.castAs<File>().readTextRequest().send()); })) {
    KJ_ASSERT(e->getType() == kj::Exception::Type::UNIMPLEMENTED, *e);
  } else {
    KJ_FAIL_ASSERT("a Dir was read");
  }
  say("alive", readText(guest, openFile(own, "a.md")));
}

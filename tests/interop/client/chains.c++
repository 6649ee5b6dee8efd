// Calls on what has not come yet: chains, what is dropped early, order, and many at once.

#include "guest.h"

SCENARIO(pipeline) {
  // Nothing is awaited before the last call is made.
  auto narrow = call(subDir(guest.dir, "docs").readOnlyRequest()).getDir();
  auto file = call(openFile(subDir(narrow, "deep"), "c.md").readOnlyRequest()).getFile();
  say("text", readText(guest, file));

  // A failure on the way is that of every call at its end.
  auto nowhere = subDir(subDir(guest.dir, "nowhere"), "deep");
  refused(guest, "notFound", call(nowhere.statRequest()));
  refused(guest, "notFound", call(openFile(nowhere, "x").readTextRequest()));

  // Through a member of a union, for which the generated code has no way: restore(secret).ref.dir. With restoreDir it has.
  auto restore = guest.session.typelessRequest(capnp::typeId<Session>(), 0, nullptr);
  restore.getAs<Session::RestoreParams>().setSecret(guest.world.secret);
  Dir::Client restored(restore.send().noop().getPointerField(0).getPointerField(0).asCap());
  say("restored", readText(guest, openFile(restored, "a.md")));

  // And what the union does not hold: the same pointer, as another interface.
  auto walk = guest.dir.typelessRequest(capnp::typeId<Dir>(), 2, nullptr);
  walk.getAs<Dir::WalkParams>().setPath("docs/b.md");
  capnp::Capability::Client walked(walk.send().noop().getPointerField(0).getPointerField(1).asCap());
  say("walked", readText(guest, walked.castAs<File>()));
  KJ_IF_MAYBE(e, kj::runCatchingExceptions([&] { guest(walked.castAs<Dir>().statRequest().send()); })) {
    KJ_ASSERT(e->getType() == kj::Exception::Type::UNIMPLEMENTED, *e);
  } else {
    KJ_FAIL_ASSERT("a file was a directory");
  }
}

// A connection of its own, on which the host's first answer is held back until the last of these calls was made: from the
// first call on, this is one round trip. Nothing here knows of fields or unions; it is what the generated code has.
SCENARIO(chain) {
  auto stream = guest(guest.world.address->connect());
  capnp::TwoPartyClient rpc(*stream);
  auto session = rpc.bootstrap().castAs<Session>();
  auto dir = call(session.restoreDirRequest(), [&](auto& p) { p.setSecret(guest.world.secret); }).getDir();
  auto docs = call(dir.openDirRequest(), [](auto& p) { p.setPath("docs"); }).getDir();
  auto narrow = call(docs.readOnlyRequest()).getDir();
  auto file = call(narrow.openFileRequest(), [](auto& p) {
    p.setPath("b.md");
    p.setNoFollow(true);
  }).getFile();
  auto text = call(file.readTextRequest());
  auto wrong = call(session.restoreFileRequest(), [&](auto& p) { p.setSecret(guest.world.secret); }).getFile();
  auto refusal = call(wrong.readTextRequest());
  say("text", guest(text).getText());
  refused(guest, "isDir", refusal);
}

// Thousands of chains, each of which is dropped somewhere, at some time.
SCENARIO(dropped) {
  uint read = 0;
  for (uint round = 0; round < 60; round++) {
    kj::Vector<capnp::RemotePromise<File::ReadTextResults>> texts;
    kj::Vector<Dir::Client> dirs;
    kj::Vector<capnp::RemotePromise<Dir::OpenFileResults>> files;
    for (uint i = 0; i < 100; i++) {
      auto docs = call(guest.dir.openDirRequest(), [](auto& p) { p.setPath("docs"); });
      auto narrow = call(docs.getDir().readOnlyRequest());
      auto file = call(narrow.getDir().openFileRequest(), [](auto& p) { p.setPath("b.md"); });
      auto text = call(file.getFile().readTextRequest());
      switch (i % 6) {
        case 0: break;                                       // all at once
        case 1: texts.add(kj::mv(text)); break;              // all but the end
        case 2: dirs.add(narrow.getDir()); break;            // all but a capability on the way
        case 3: files.add(kj::mv(file)); break;              // all but a promise on the way
        case 4: guest.turn(); break;                         // a little later
        case 5: { auto first = kj::mv(text); } guest.turn(); // the end first
      }
    }
    for (auto& t : texts) {
      KJ_ASSERT(guest(t).getText() == "of docs");
      read++;
    }
    if (round % 3 == 0) {
      KJ_ASSERT(readText(guest, guest(files[0]).getFile()) == "of docs");
      KJ_ASSERT(readText(guest, openFile(dirs[0], "b.md")) == "of docs");
    }
  }
  say("read", read);
}

static kj::Promise<void> append(File::Client file, uint n) {
  auto line = kj::str(n, "\n");
  return call(file.appendRequest(), [&](auto& p) { p.setData(line.asBytes()); }).ignoreResult();
}

// Calls on one reference start in the order in which they were made: on a promise, on the capability that it becomes, and
// across the moment when it does.
SCENARIO(order) {
  auto created = call(guest.dir.createFileRequest(), [](auto& p) { p.setPath("lines"); });
  File::Client file = created.getFile();
  kj::Vector<kj::Promise<void>> appends;
  uint n = 0;
  for (; n < 300; n++) appends.add(append(file, n));
  for (; n < 600; n++) {
    appends.add(append(file, n));
    guest.turn();
  }
  auto settled = guest(created).getFile();
  for (; n < 900; n++) appends.add(append(n % 2 ? settled : file, n));
  for (auto& a : appends) guest(a);
  say("appended", n);
}

// Many calls and many capabilities at the same time.
SCENARIO(many) {
  kj::Vector<File::Client> files;
  for (uint i = 0; i < 3000; i++) files.add(openFile(guest.dir, "docs/b.md"));
  kj::Vector<capnp::RemotePromise<File::ReadResults>> reads;
  for (auto& f : files) reads.add(call(f.readRequest(), [](auto& p) { p.setLength(100); }));
  uint bytes = 0;
  for (auto& r : reads) bytes += guest(r).getData().size();
  say("bytes", bytes);
}

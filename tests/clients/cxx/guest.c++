// A whole guest of capd in C++, to copy from: it restores a locator, looks around, reads, writes on a condition, streams, and gives a part away.
//
//   capnp compile -oc++:. --src-prefix=SCHEMA SCHEMA/*.capnp
//   g++ -std=c++17 -o guest guest.c++ guest.capnp.c++ -lcapnp-rpc -lcapnp -lkj-async -lkj
//   ./guest LOCATOR

#include <cstdio>
#include <cstring>

#include <capnp/rpc-twoparty.h>
#include <kj/async-io.h>
#include <kj/debug.h>
#include <kj/encoding.h>

#include "guest.capnp.h"

// Locator is the parts of a locator for a Unix socket: capnp://insecure@/path/of/the/socket/SECRET.
struct Locator {
  kj::String socket;
  kj::Array<kj::byte> secret;

  explicit Locator(kj::StringPtr text) {
    const kj::StringPtr prefix = "capnp://insecure@";
    KJ_REQUIRE(text.startsWith(prefix), "this program connects to Unix sockets only");
    auto path = text.slice(prefix.size());
    auto slash = KJ_REQUIRE_NONNULL(path.findLast('/'), "the locator has no secret");
    socket = kj::decodeUriComponent(path.slice(0, slash));
    auto encoded = kj::heapString(path.slice(slash + 1));
    for (auto& c : encoded) c = c == '-' ? '+' : c == '_' ? '/' : c;  // base64url to base64
    secret = kj::decodeBase64(encoded);
    KJ_REQUIRE(secret.size() == 32, "the locator's secret is damaged");
  }
};

// code returns the code of a refusal by the host, or "" if e is something else, such as a lost connection.
kj::StringPtr code(const kj::Exception& e, kj::String& keep) {
  kj::StringPtr text = e.getDescription(), mark = "capd: ";
  for (size_t i = 0; i + mark.size() <= text.size(); i++) {
    if (!text.slice(i).startsWith(mark)) continue;
    auto rest = text.slice(i + mark.size());
    size_t end = rest.findFirst(':').orDefault(rest.size());
    keep = kj::heapString(rest.slice(0, end));
    return keep;
  }
  return "";
}

// Counter is a sink: the host sends it the content of a file.
class Counter final : public capd::Sink::Server {
 public:
  explicit Counter(uint64_t& bytes) : bytes(bytes) {}
  kj::Promise<void> write(WriteContext context) override {
    bytes += context.getParams().getData().size();
    return kj::READY_NOW;
  }
  kj::Promise<void> done(DoneContext) override { return kj::READY_NOW; }

 private:
  uint64_t& bytes;
};

void run(kj::StringPtr text) {
  Locator locator(text);
  auto io = kj::setupAsyncIo();
  auto& wait = io.waitScope;
  auto stream = io.provider->getNetwork().parseAddress(kj::str("unix:", locator.socket)).wait(wait)->connect().wait(wait);
  capnp::TwoPartyClient rpc(*stream);
  auto session = rpc.bootstrap().castAs<capd::Session>();

  // Restore the locator. Calls on the result are made at once: all of this is one round trip.
  auto restore = session.restoreDirRequest();
  restore.setSecret(locator.secret);
  auto dir = restore.send().getDir();

  // List, a page at a time.
  size_t count = 0;
  capnp::MallocMessageBuilder lastName;
  for (bool more = true; more;) {
    auto list = dir.listRequest();
    list.setLimit(2);
    list.setAfter(lastName.getRoot<capnp::AnyPointer>().getAs<capnp::Data>());
    auto page = list.send().wait(wait);
    for (auto entry : page.getEntries()) {
      printf("entry %s\n", entry.getName().cStr());
      count++;
      auto raw = entry.getRawName();  // names are bytes; this is set if they are not UTF-8
      lastName.getRoot<capnp::AnyPointer>().setAs<capnp::Data>(raw.size() > 0 ? raw : entry.getName().asBytes());
    }
    more = page.getMore();
  }

  // Read, and write only if nobody else has changed the file since.
  auto open = dir.openFileRequest();
  open.setPath("notes.txt");
  auto file = open.send().getFile();
  auto read = file.readTextRequest().send().wait(wait);
  printf("read %s\n", kj::str(read.getText()).cStr());
  auto write = file.writeTextRequest();
  write.setText(kj::str(read.getText(), " and more"));
  write.initIfVersion().setEquals(read.getVersion());
  write.send().wait(wait);

  // The same again is a conflict, since the version is another one now. A refusal is an exception whose text has a code.
  auto again = file.writeTextRequest();
  again.setText("lost");
  again.initIfVersion().setEquals(read.getVersion());
  again.send().then([](auto&&) { KJ_FAIL_ASSERT("the write was not refused"); }, [](kj::Exception&& e) {
    kj::String keep;
    printf("refused %s\n", code(e, keep).cStr());
  }).wait(wait);

  // Write a large file: stage it, send pieces without waiting for each, and commit.
  auto stage = dir.stageRequest();
  stage.setPath("large");
  auto writer = stage.send().getWriter();
  auto piece = kj::heapArray<kj::byte>(256 << 10);
  for (int i = 0; i < 8; i++) {
    memset(piece.begin(), i, piece.size());
    auto send = writer.writeRequest();
    send.setData(piece);
    send.send().wait(wait);  // returns when the next piece may be sent
  }
  writer.commitRequest().send().wait(wait);

  // Read it as a stream.
  uint64_t bytes = 0;
  auto large = dir.openFileRequest();
  large.setPath("large");
  auto content = large.send().getFile().streamRequest();
  content.setSink(kj::heap<Counter>(bytes));
  auto sent = content.send().wait(wait);
  KJ_ASSERT(sent.getBytes() == bytes);
  printf("streamed %llu bytes\n", (unsigned long long)bytes);

  // Give somebody else a part of it, to read only, until it is revoked.
  auto sub = dir.subDirRequest();
  sub.setPath("sub");
  auto share = session.shareRequest();
  share.initRef().setDir(sub.send().getDir().readOnlyRequest().send().getDir());
  auto given = share.send().wait(wait);
  auto restored = session.restoreDirRequest();
  restored.setSecret(given.getSecret());
  auto theirs = restored.send().getDir();
  auto put = theirs.putRequest();
  put.setPath("new");
  put.send().then([](auto&&) { KJ_FAIL_ASSERT("the write was not refused"); }, [](kj::Exception&& e) {
    kj::String keep;
    printf("a share refused %s\n", code(e, keep).cStr());
  }).wait(wait);
  given.getRevoker().revokeRequest().send().wait(wait);
  theirs.listRequest().send().then([](auto&&) { KJ_FAIL_ASSERT("the share lives"); }, [](kj::Exception&& e) {
    kj::String keep;
    printf("a share refused %s\n", code(e, keep).cStr());
  }).wait(wait);
  printf("end %zu\n", count);
}

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: guest LOCATOR\n");
    return 2;
  }
  KJ_IF_MAYBE(e, kj::runCatchingExceptions([&] { run(argv[1]); })) {
    fprintf(stderr, "guest: %s\n", kj::str(*e).cStr());
    return 1;
  }
}

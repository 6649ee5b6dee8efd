// Many bytes: to a sink that the guest hosts, and from it.

#include "guest.h"

#include <cstring>
#include <memory>

// Came is what a sink was given. Sinks share it with the scenario, which may end before the host has given them back.
struct Came {
  Digest digest;
  bool done = false;
};
using SharedCame = std::shared_ptr<Came>;

static kj::Promise<void> atOnce() { return kj::READY_NOW; }

// Collector is a sink that takes one write at a time, which is how the library serves a `-> stream` method.
class Collector final : public Sink::Server {
 public:
  // take is when a write that was added to what came is answered.
  explicit Collector(SharedCame came, std::function<kj::Promise<void>()> take = atOnce) : came(kj::mv(came)), take(kj::mv(take)) {}

  kj::Promise<void> write(WriteContext context) override {
    used("Sink.write");
    KJ_ASSERT(!came->done && !inside, "a write beside another, or after done");
    auto data = context.getParams().getData();
    KJ_ASSERT(data.size() > 0 && data.size() <= 256 << 10);
    came->digest.add(data);
    inside = true;
    return take().attach(kj::defer([this] { inside = false; }));
  }
  kj::Promise<void> done(DoneContext) override {
    used("Sink.done");
    KJ_ASSERT(!came->done && !inside);
    came->done = true;
    return kj::READY_NOW;
  }

 private:
  SharedCame came;
  bool inside = false;
  std::function<kj::Promise<void>()> take;
};

static capnp::RemotePromise<File::StreamResults> stream(File::Client file, Sink::Client sink, uint64_t offset = 0, uint64_t length = 0) {
  return call(file.streamRequest(), [&](auto& p) {
    p.setSink(kj::mv(sink));
    p.setOffset(offset);
    p.setLength(length);
  });
}

SCENARIO(download) {
  auto file = openFile(guest.dir, "big");
  struct { uint64_t offset, length; } parts[] = {{0, 0}, {1'000'001, 3'000'003}, {0, 1}, {48 << 20, 0}, {1ull << 40, 5}};
  for (auto part : parts) {
    auto came = std::make_shared<Came>();
    auto bytes = guest(stream(file, kj::heap<Collector>(came), part.offset, part.length)).getBytes();
    KJ_ASSERT(came->done && bytes == came->digest.size);
    say("came", part.offset, part.length, came->digest);
  }
  // A slow sink gets the same, and so do several beside each other.
  auto slow = std::make_shared<Came>();
  SharedCame quick[3];
  auto& timer = guest.world.io.provider->getTimer();
  auto slowly = stream(file, kj::heap<Collector>(slow, [&timer] { return timer.afterDelay(2 * kj::MILLISECONDS); }));
  kj::Vector<kj::Promise<void>> others;
  for (auto& q : quick) {
    q = std::make_shared<Came>();
    others.add(stream(file, kj::heap<Collector>(q)).ignoreResult());
  }
  for (auto& o : others) guest(o);
  guest(slowly);
  say("slow", slow->digest);
  for (auto& q : quick) KJ_ASSERT(q->digest.sum == slow->digest.sum && q->digest.size == slow->digest.size && q->done);

  // A sink that fails ends its own stream.
  auto until = std::make_shared<Came>();
  refused(guest, "invalid", stream(file, kj::heap<Collector>(until, [until]() -> kj::Promise<void> {
    KJ_REQUIRE(until->digest.size < 1 << 20, "the disk is full");
    return kj::READY_NOW;
  })));
  KJ_ASSERT(!until->done);
  say("alive", readText(guest, openFile(guest.dir, "a.md")));
}

SCENARIO(archive) {
  auto came = std::make_shared<Came>();
  auto made = guest(call(guest.dir.archiveRequest(), [&](auto& p) {
    p.setPath("docs");
    p.setFormat("tar.gz");
    p.setSink(kj::heap<Collector>(came));
  }));
  KJ_ASSERT(came->done && made.getBytes() == came->digest.size);
  say("archived", made.getEntries(), made.getMissed().size());
  refused(guest, "invalid", call(guest.dir.archiveRequest(), [&](auto& p) {
    p.setFormat("rar");
    p.setSink(kj::heap<Collector>(came));
  }));
}

// Upload writes size bytes of noise within the library's own window, and adds them to of.
static void upload(Guest& guest, Writer::Client writer, uint64_t size, Digest& of) {
  Noise noise;
  for (uint64_t at = 0; at < size;) {
    guest(call(writer.writeRequest(), [&](auto& p) {
      auto data = p.initData(kj::min(size - at, 256u << 10));
      noise.fill(data);
      of.add(data);
      at += data.size();
    }));
  }
}

SCENARIO(upload) {
  auto writer = call(guest.dir.stageRequest(), [](auto& p) { p.setPath("docs/new"); }).getWriter();
  Digest of;
  upload(guest, writer, (48 << 20) + 1, of);
  say("staged", of, hex(guest(call(writer.commitRequest())).getVersion()));

  auto again = call(openFile(guest.dir, "a.md").stageRequest()).getWriter();
  Digest small;
  upload(guest, again, 3'000'000, small);
  say("over", small, hex(guest(call(again.commitRequest())).getVersion()));

  // What is dropped leaves nothing; nor does what an error has ended.
  {
    auto dropped = call(guest.dir.stageRequest(), [](auto& p) { p.setPath("dropped"); }).getWriter();
    Digest none;
    upload(guest, dropped, 1'000'000, none);
  }
  auto broken = call(guest.dir.stageRequest(), [](auto& p) { p.setPath("broken"); }).getWriter();
  auto tooLarge = call(broken.writeRequest(), [](auto& p) { p.initData((1 << 20) + 1); });
  refused(guest, "tooLarge", call(broken.commitRequest()));
}

// Both ways at once, with small calls between.
SCENARIO(duplex) {
  auto came = std::make_shared<Came>();
  auto down = stream(openFile(guest.dir, "big"), kj::heap<Collector>(came)).eagerlyEvaluate(nullptr);
  auto writer = call(guest.dir.stageRequest(), [](auto& p) { p.setPath("up"); }).getWriter();
  Digest of;
  uint calls = 0;
  for (Noise noise; of.size < 24 << 20; calls++) {
    auto text = call(openFile(guest.dir, "a.md").readTextRequest());
    guest(call(writer.writeRequest(), [&](auto& p) {
      auto data = p.initData(100'000);
      noise.fill(data);
      of.add(data);
    }));
    KJ_ASSERT(guest(text).getText() == "hello");
  }
  say("up", of, hex(guest(call(writer.commitRequest())).getVersion()));
  KJ_ASSERT(guest(down).getBytes() == came->digest.size);
  say("down", came->digest);
}

// Holder is a sink that answers no write before it is told to, and lets others come meanwhile: it is not served as a stream,
// so that all that the host has on its way is seen.
class Holder final : public capnp::Capability::Server {
 public:
  struct State {
    Came came;
    uint64_t unanswered = 0, most = 0;
    bool dropped = false;  // the sink is gone
    bool open = false;
    kj::Own<kj::PromiseFulfiller<void>> opened;
  };
  Holder(std::shared_ptr<State> state, kj::Promise<void> opening) : state(kj::mv(state)), opening(opening.fork()) {}
  ~Holder() noexcept(false) { state->dropped = true; }

  DispatchCallResult dispatchCall(uint64_t interface, uint16_t method,
                                  capnp::CallContext<capnp::AnyPointer, capnp::AnyPointer> context) override {
    KJ_ASSERT(interface == capnp::typeId<Sink>());
    if (method == 1) {
      KJ_ASSERT(state->unanswered == 0);
      state->came.done = true;
      return {kj::READY_NOW, false};
    }
    auto size = context.getParams().getAs<Sink::WriteParams>().getData().size();
    state->came.digest.add(context.getParams().getAs<Sink::WriteParams>().getData());
    state->unanswered += size;
    state->most = kj::max(state->most, state->unanswered);
    context.allowCancellation();
    if (state->open) {
      state->unanswered -= size;
      return {kj::READY_NOW, false};
    }
    return {opening.addBranch().attach(kj::defer([state = state, size] { state->unanswered -= size; })), false};
  }

 private:
  std::shared_ptr<State> state;
  kj::ForkedPromise<void> opening;
};

using Held = std::shared_ptr<Holder::State>;

static Sink::Client hold(Held state) {
  auto opening = kj::newPromiseAndFulfiller<void>();
  state->opened = kj::mv(opening.fulfiller);
  return capnp::Capability::Client(kj::heap<Holder>(state, kj::mv(opening.promise))).castAs<Sink>();
}

// until polls, for at most ten seconds.
static void until(Guest& guest, std::function<bool()> condition) {
  auto& timer = guest.world.io.provider->getTimer();
  auto end = timer.now() + 10 * kj::SECONDS;
  while (!condition()) {
    KJ_ASSERT(timer.now() < end, "it does not come to that");
    guest(timer.afterDelay(kj::MILLISECONDS));
  }
}

// full waits until the host sends nothing more to a sink that answers nothing.
static void full(Guest& guest, Held state) {
  until(guest, [&] { return state->unanswered > (3 << 20); });
  for (uint64_t before = 0; before != state->unanswered;) {
    before = state->unanswered;
    guest(guest.world.io.provider->getTimer().afterDelay(50 * kj::MILLISECONDS));
  }
}

// At most 4 MiB are unanswered.
SCENARIO(window) {
  auto state = std::make_shared<Holder::State>();
  auto streaming = stream(openFile(guest.dir, "big"), hold(state)).eagerlyEvaluate(nullptr);
  full(guest, state);
  KJ_ASSERT(state->unanswered <= 4 << 20, state->unanswered);
  say("alive", readText(guest, openFile(guest.dir, "a.md")));  // beside a stream that stands still
  state->open = true;
  state->opened->fulfill();
  KJ_ASSERT(guest(streaming).getBytes() == state->came.digest.size && state->came.done);
  KJ_ASSERT(state->most <= 4 << 20, state->most);
  say("came", state->came.digest);
  until(guest, [&] { return state->dropped; });
}

// A call whose promise is dropped ends, and gives back the sink.
SCENARIO(cancel) {
  for (uint i = 0; i < 5; i++) {
    auto state = std::make_shared<Holder::State>();
    {
      auto streaming = stream(openFile(guest.dir, "big"), hold(state)).eagerlyEvaluate(nullptr);
      full(guest, state);
    }
    until(guest, [&] { return state->dropped; });
    KJ_ASSERT(state->unanswered == 0 && !state->came.done);
  }
  // One that has hardly begun, and one that needs no sink.
  for (uint i = 0; i < 200; i++) {
    auto streaming = stream(openFile(guest.dir, "big"), kj::heap<Collector>(std::make_shared<Came>()));
    auto globbing = call(guest.dir.globRequest(), [](auto& p) { p.setPattern("**"); });
    if (i % 2 == 0) guest.turn();
  }
  say("alive", readText(guest, openFile(guest.dir, "a.md")));
}

// A stream to a sink that answers nothing, and one to a writer, end when what they came of is taken back.
SCENARIO(revoked) {
  auto lent = guest(call(guest.dir.revocableRequest()));
  auto state = std::make_shared<Holder::State>();
  auto streaming = stream(openFile(lent.getDir(), "big"), hold(state)).eagerlyEvaluate(nullptr);
  auto writer = call(lent.getDir().stageRequest(), [](auto& p) { p.setPath("up"); }).getWriter();
  Digest of;
  upload(guest, writer, 5'000'000, of);
  full(guest, state);
  guest(call(lent.getRevoker().revokeRequest()));
  refused(guest, "revoked", streaming);
  refused(guest, "revoked", call(writer.commitRequest()));
  until(guest, [&] { return state->dropped; });
  say("alive", readText(guest, openFile(guest.dir, "a.md")));
}

// The same, but it is the host that takes back what the guest was granted.
SCENARIO(taken) {
  auto state = std::make_shared<Holder::State>();
  auto streaming = stream(openFile(guest.dir, "big"), hold(state)).eagerlyEvaluate(nullptr);
  auto writer = call(guest.dir.stageRequest(), [](auto& p) { p.setPath("up"); }).getWriter();
  Digest of;
  upload(guest, writer, 5'000'000, of);
  full(guest, state);
  say("streaming");
  refused(guest, "revoked", streaming);
  KJ_IF_MAYBE(e, kj::runCatchingExceptions([&] {
    for (;;) upload(guest, writer, 1'000'000, of);
  })) {
    refusedWith(*e, "revoked");
  }
  refused(guest, "revoked", call(writer.commitRequest()));
  refused(guest, "revoked", call(guest.dir.statRequest()));
  KJ_ASSERT(guest(call(guest.session.helpRequest())).getText().size() > 0);
}

// A guest that does not keep the promises of its writes, of every second upload, and so cancels them. Each upload is
// there whole, or refused.
SCENARIO(careless) {
  constexpr int uploads = 60;
  int whole = 0, cut = 0;
  Noise noise;
  for (int i = 0; i < uploads; i++) {
    auto path = kj::str("up", i);
    auto writer = call(guest.dir.stageRequest(), [&](auto& p) { p.setPath(path); }).getWriter();
    Digest sent;
    kj::Vector<capnp::RemotePromise<capnp::AnyPointer>> kept;
    for (int k = 0; k < 20; k++) {
      // Not as a stream, of which the library keeps the promises itself.
      auto request = writer.typelessRequest(capnp::typeId<Writer>(), 0, nullptr);
      auto data = request.initAs<Writer::WriteParams>().initData(1000);
      noise.fill(data);
      sent.add(data);
      auto written = request.send();
      if (i % 2 == 0) kept.add(kj::mv(written));
    }
    KJ_IF_MAYBE(e, kj::runCatchingExceptions([&] { guest(call(writer.commitRequest())); })) {
      KJ_ASSERT(i % 2 == 1 && strstr(e->getDescription().cStr(), "capd: invalid: ") != nullptr, *e);
      KJ_ASSERT(kj::runCatchingExceptions([&] { readText(guest, openFile(guest.dir, path)); }) != nullptr, "a part is there", path);
      continue;
    }
    Digest there;
    there.add(guest(call(openFile(guest.dir, path).readBytesRequest())).getData());
    (there.sum == sent.sum && there.size == sent.size ? whole : cut)++;
  }
  KJ_ASSERT(whole >= uploads / 2);
  say("careless", uploads, cut);
}

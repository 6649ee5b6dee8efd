// A peer of interop/order, written with Cap'n Proto's own C++: it serves, or calls one that does.

#include <cstdio>

#include <capnp/rpc-twoparty.h>
#include <kj/async-io.h>
#include <kj/debug.h>

#include "order.capnp.h"

using kj::uint;

static void say(kj::StringPtr line) {
  fprintf(stdout, "%s\n", line.cStr());
  fflush(stdout);
}

class Notes final : public Log::Server {
 public:
  kj::Promise<void> add(AddContext c) override {
    all.add(c.getParams().getN());
    return kj::READY_NOW;
  }
  kj::Promise<void> noted(NotedContext c) override {
    c.getResults().setAll(all.asPtr());
    return kj::READY_NOW;
  }

 private:
  kj::Vector<uint32_t> all;
};

class Orders final : public Order::Server {
 public:
  Orders() : Orders(kj::newPromiseAndFulfiller<void>()) {}

  kj::Promise<void> later(LaterContext c) override {
    c.getResults().setLog(promised(kj::heap<Notes>()));
    return kj::READY_NOW;
  }
  kj::Promise<void> yours(YoursContext c) override {
    c.getResults().setLog(promised(c.getParams().getLog()));
    return kj::READY_NOW;
  }
  kj::Promise<void> relay(RelayContext c) override {
    return settled.addBranch().then([c]() mutable { c.getResults().setLog(c.getParams().getLog()); });
  }
  kj::Promise<void> broken(BrokenContext c) override {
    c.getResults().setLog(Log::Client(settled.addBranch().then([]() -> Log::Client { KJ_FAIL_REQUIRE("broken as told"); })));
    return kj::READY_NOW;
  }
  kj::Promise<void> settle(SettleContext) override {
    decide->fulfill();
    return kj::READY_NOW;
  }
  kj::Promise<void> forward(ForwardContext c) override {
    if (c.getParams().hasTo()) return c.tailCall(c.getParams().getTo().forwardRequest());
    c.getResults().setLog(promised(kj::heap<Notes>()));
    return kj::READY_NOW;
  }

 private:
  explicit Orders(kj::PromiseFulfillerPair<void> pair) : settled(pair.promise.fork()), decide(kj::mv(pair.fulfiller)) {}

  Log::Client promised(Log::Client log) {
    return settled.addBranch().then([log]() mutable { return kj::mv(log); });
  }

  kj::ForkedPromise<void> settled;
  kj::Own<kj::PromiseFulfiller<void>> decide;
};

// want is what the n calls of add have to leave.
static void inOrder(capnp::List<uint32_t>::Reader noted, uint n) {
  KJ_ASSERT(noted.size() == n, noted.size());
  for (uint i = 0; i < n; i++) KJ_ASSERT(noted[i] == i, i, noted[i]);
}

// tryOrder calls add on a Log that is a promise at first: before it is settled, while it is, and afterwards.
static void tryOrder(kj::WaitScope& scope, Order::Client order, kj::StringPtr how) {
  Log::Client own = kj::heap<Notes>(), log = nullptr;
  if (how == "later") {
    log = order.laterRequest().send().wait(scope).getLog();
  } else if (how == "yours") {
    auto r = order.yoursRequest();
    r.setLog(own);
    log = r.send().wait(scope).getLog();
  } else if (how == "relay") {
    auto r = order.relayRequest();
    r.setLog(own);
    log = r.send().getLog();
  } else {
    log = order.brokenRequest().send().wait(scope).getLog();
  }

  kj::Vector<kj::Promise<void>> adds;
  auto add = [&](uint count, bool turns) {
    for (uint i = 0; i < count; i++) {
      auto r = log.addRequest();
      r.setN(adds.size());
      adds.add(r.send().ignoreResult().eagerlyEvaluate(nullptr));
      if (turns) kj::evalLater([] {}).wait(scope);
    }
  };
  add(300, false);
  auto settled = order.settleRequest().send();
  add(300, true);
  settled.wait(scope);
  KJ_IF_MAYBE(e, kj::runCatchingExceptions([&] { log.whenResolved().wait(scope); })) {
    KJ_ASSERT(how == "broken", *e);
  }
  add(300, false);
  uint failed = 0;
  for (auto& a : adds) {
    KJ_IF_MAYBE(e, kj::runCatchingExceptions([&] { a.wait(scope); })) {
      KJ_ASSERT(e->getDescription().endsWith("broken as told"), *e);
      failed++;
    }
  }
  if (how == "broken") {
    KJ_ASSERT(failed == adds.size(), failed);
  } else {
    KJ_ASSERT(failed == 0, failed);
    auto noted = log.notedRequest().send().wait(scope);
    inOrder(noted.getAll(), adds.size());
  }
  if (how == "yours" || how == "relay") {
    auto noted = own.notedRequest().send().wait(scope);  // they were all ours
    inOrder(noted.getAll(), adds.size());
  }
  say(kj::str(how, " ", adds.size(), " calls, ", failed, " failed"));
}

// peer serve SOCKET, or peer later|yours|relay|broken SOCKET.
int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: peer serve|later|yours|relay|broken SOCKET\n");
    return 2;
  }
  kj::StringPtr what = argv[1];
  auto io = kj::setupAsyncIo();
  auto address = io.provider->getNetwork().parseAddress(kj::str("unix:", argv[2])).wait(io.waitScope);
  if (what == "serve") {
    auto socket = address->listen();
    say("listening");
    capnp::TwoPartyServer server(kj::heap<Orders>());
    server.listen(*socket).wait(io.waitScope);
  }
  auto stream = address->connect().wait(io.waitScope);
  capnp::TwoPartyClient client(*stream);
  tryOrder(io.waitScope, client.bootstrap().castAs<Order>(), what);
}

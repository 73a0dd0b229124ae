// State that engines keep under ids of their own: each request for it reaches the replica that has it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <boost/json.hpp>
#include <mutex>
#include <set>
#include <string>

#include "tests/integration/peers/streams.hpp"
#include "tests/integration/peers/weir_under_test.hpp"
#include "tests/integration/peers/words.hpp"

namespace weir::integration {
namespace {

const std::string not_found = answer("404 Not Found", R"({"error":{"message":"no such id","code":404}})");

/// An engine that keeps responses and files, each under an id that tells nothing of the engine.
class Keeper {
 public:
  explicit Keeper(std::atomic<int>& ids) : ids_(ids) {}
  std::string url() const { return replica.url(); }

 private:
  void serve(Exchange& exchange) {
    const auto& request = exchange.request();
    const std::lock_guard lock(mutex_);
    if (request.target == "/v1/responses" || request.target == "/v1/batches") return respond(exchange);
    if (request.target == "/v1/files") return exchange.send(answer("200 OK", R"({"id":")" + make("file") + "\"}"));
    const auto id = request.target.substr(request.target.find('/', 4) + 1);
    if (!kept_.contains(id.substr(0, id.find('/')))) return exchange.send(not_found);
    exchange.send(answer("200 OK", R"({"id":")" + id + "\"}"));
    if (request.method == "DELETE") kept_.erase(id);
  }
  void respond(Exchange& exchange) {
    const auto body = boost::json::parse(exchange.request().body).as_object();
    for (const auto* const names : {"previous_response_id", "input_file_id"})
      if (const auto* id = body.if_contains(names); id && !kept_.contains(std::string(id->as_string())))
        return exchange.send(not_found);
    const auto id = make("resp");
    const auto whole = R"({"id":")" + id + R"(","object":"response","status":"completed","output":[{)" +
                       R"("type":"message","content":[{"type":"output_text","text":"hi"}]}]})";
    if (!body.contains("stream")) return exchange.send(answer("200 OK", whole));
    exchange.send(answer("200 OK", "data: {\"type\":\"response.created\",\"response\":" + whole + "}\n\n" +
                         "data: {\"type\":\"response.output_text.delta\",\"delta\":\"hi\"}\n\n"
                         "data: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\"}}\n\n",
                         "text/event-stream"));
  }
  std::string make(const std::string& kind) { return *kept_.insert(kind + "_" + std::to_string(++ids_)).first; }

  std::atomic<int>& ids_;
  std::mutex mutex_;
  std::set<std::string> kept_;

 public:
  ScriptedReplica replica{[this](Exchange& exchange) { serve(exchange); }};
};

std::string id_in(const Response& response) {
  const auto& body = response.body;
  const auto from = std::min(body.find("resp_"), body.find("file_"));
  return from == std::string::npos ? "" : body.substr(from, body.find('"', from) - from);
}

class KeptState : public testing::Test {
 protected:
  std::string respond(const WeirUnderTest& weir, const std::string& text, const std::string& previous, bool stream) {
    auto body = R"({"model":"m","input":")" + text + "\"" + (stream ? R"(,"stream":true)" : "");
    if (!previous.empty()) body += R"(,"previous_response_id":")" + previous + "\"";
    const auto got = fetch(weir.port(), post("/v1/responses", body + "}"));
    EXPECT_EQ(got.status, 200u) << text << " after " << previous << ": " << got.body;
    return id_in(got);
  }

  std::atomic<int> ids{0};
  Keeper a{ids}, b{ids}, c{ids};
};

TEST_F(KeptState, ConversationsGoOnOverAReloadThatAddsAReplica) {
  WeirUnderTest weir(pool_of({&a.replica, &b.replica}));
  std::vector<std::string> last(20);
  for (int turn = 0; turn < 6; ++turn) {
    if (turn == 3) weir.reload(pool_of({&a.replica, &b.replica, &c.replica}), "replica r2 added");
    for (std::size_t one = 0; one < last.size(); ++one)
      last[one] = respond(weir, std::to_string(one) + " turn " + std::to_string(turn), last[one], one % 2 == 0);
  }
  for (const auto& id : last) {
    EXPECT_EQ(fetch(weir.port(), get("/v1/responses/" + id)).status, 200u);
    EXPECT_EQ(fetch(weir.port(), post("/v1/responses/" + id + "/cancel", "")).status, 200u);
    EXPECT_EQ(fetch(weir.port(), "DELETE /v1/responses/" + id + " HTTP/1.1\r\nHost: a\r\n\r\n").status, 200u);
    EXPECT_EQ(fetch(weir.port(), get("/v1/responses/" + id)).status, 404u) << "it is gone, and nobody else is asked";
  }
  const auto page = weir.metrics_after(20 * 6 + 20 * 4);
  EXPECT_EQ(page.sum("weir_retries_total"), 0);
  EXPECT_EQ(page.sum("weir_balancer_fallbacks_total", {{"reason", "unknown_prompt"}}), 0) << "these have no prompt";
  for (const auto* const name : {"r0", "r1", "r2"}) EXPECT_NE(page.state_of(name), "ejected");
}

TEST_F(KeptState, IsSoughtAfterARestartAndThenKnown) {
  std::vector<std::string> before;
  {
    WeirUnderTest weir(pool_of({&a.replica, &b.replica, &c.replica}));
    for (int one = 0; one < 6; ++one) before.push_back(respond(weir, std::to_string(one), "", false));
  }
  WeirUnderTest weir(pool_of({&a.replica, &b.replica, &c.replica}));
  for (const auto& id : before) EXPECT_EQ(fetch(weir.port(), get("/v1/responses/" + id)).status, 200u) << id;
  for (const auto& id : before) respond(weir, "later", id, false);
  EXPECT_EQ(fetch(weir.port(), get("/v1/responses/resp_none")).status, 404u);
}

TEST_F(KeptState, OfFilesIsWhereTheirBatchesGo) {
  WeirUnderTest weir(pool_of({&a.replica, &b.replica}));
  for (int one = 0; one < 6; ++one) {
    const auto file = id_in(fetch(weir.port(), post("/v1/files", "a file")));
    EXPECT_EQ(fetch(weir.port(), get("/v1/files/" + file + "/content")).status, 200u);
    const auto batch = id_in(fetch(weir.port(), post("/v1/batches", R"({"input_file_id":")" + file + "\"}")));
    EXPECT_EQ(fetch(weir.port(), get("/v1/batches/" + batch)).status, 200u);
    EXPECT_EQ(fetch(weir.port(), post("/v1/batches/" + batch + "/cancel", "")).status, 200u);
  }
  EXPECT_EQ(weir.metrics_after(6 * 5).sum("weir_retries_total"), 0);
}

/// A GET names no model.
TEST_F(KeptState, IsInThePoolOfItsReplica) {
  auto settings = pool_of({&a.replica});
  settings.pools[0].more["models"] = "[\"m\"]";
  settings.pools.push_back({"other", {{"s0", b.url()}}, {{"models", "[\"n\"]"}}});
  WeirUnderTest weir(settings);
  const auto id = id_in(fetch(weir.port(), post("/v1/responses", R"({"model":"n","input":"a"})")));
  const auto got = fetch(weir.port(), get("/v1/responses/" + id));
  EXPECT_EQ(got.status, 200u);
  EXPECT_EQ(got.head.field("x-weir-replica"), "s0");
}

}  // namespace
}  // namespace weir::integration

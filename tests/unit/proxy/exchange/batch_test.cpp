// Requests and whole answers that come in one batch of the poller go out at its end, whatever happens in the batch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "tests/unit/proxy/serve/scripted_proxy.hpp"

namespace weir::proxy::serve {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(RequestOut, OfABatchGoesOutAtItsEnd) {
  ScriptedProxy proxy({says(whole_answer("200 OK", completion))});
  const auto client = proxy.asks(post(chat(false)));
  const auto sent = proxy.upstream().got.size();
  InABatch(proxy, [&] {
    client->says(post(chat(false)));
    EXPECT_TRUE(client->report());
    EXPECT_EQ(proxy.upstream().got.size(), sent) << "others of the batch may have requests, too";
  });
  EXPECT_EQ(proxy.upstream().got.size(), 2 * sent) << "before the context has its turn";
  proxy.run();
  EXPECT_EQ(read_answer(read_answer(client->got).rest).body, completion);
  EXPECT_EQ(proxy.connections[0].size(), 1u);
}

TEST(RequestOut, OfABatchIsNotSentIfItsClientOrItsReplicaLeavesInTheSameBatch) {
  for (const bool replica_leaves : {false, true}) {
    SCOPED_TRACE(replica_leaves);
    ScriptedProxy proxy({says(whole_answer("200 OK", completion))});
    const auto client = proxy.asks(post(chat(false)));
    auto& replica = proxy.upstream();
    const auto sent = replica.got.size();
    InABatch(proxy, [&] {
      client->says(post(chat(false)));
      EXPECT_TRUE(client->report());
      auto& leaver = replica_leaves ? replica : *client;
      leaver.breaks();
      EXPECT_TRUE(leaver.report());
    });
    proxy.run();
    EXPECT_EQ(replica.got.size(), sent);
    EXPECT_TRUE(replica.closed());
    if (replica_leaves) {
      EXPECT_EQ(read_answer(read_answer(client->got).rest).body, completion) << "by a fresh connection";
      EXPECT_EQ(proxy.connections[0].size(), 2u);
    } else {
      EXPECT_TRUE(client->closed());
      EXPECT_THAT(proxy.log_lines().back(), HasSubstr(R"("outcome":"client_abort")"));
    }
    proxy.expect_at_rest();
  }
}

/// The poller has no use for a failure: it is the exchange's, as in a handler of its own.
TEST(RequestOut, OfABatchThatFailsEndsItsOwnAttemptAlone) {
  ScriptedProxy proxy({says(whole_answer("200 OK", completion))});
  const auto client = proxy.asks(post(chat(false)));
  const auto sent = proxy.upstream().got.size();
  proxy.calls.error = net::Calls::throws;
  InABatch(proxy, [&] {
    client->says(post(chat(false)));
    EXPECT_TRUE(client->report());
    proxy.calls.failing = proxy.calls.made;  // The next call writes the request.
  });
  proxy.run();
  EXPECT_EQ(proxy.upstream().got.size(), sent);
  const auto answer = read_answer(read_answer(client->got).rest);
  EXPECT_EQ(answer.status, 500);
  EXPECT_THAT(answer.body, HasSubstr(R"("code":"internal_error")"));
  proxy.expect_at_rest();
}

/// A client that waits for a whole answer, and the replica that owes it.
struct Owed {
  explicit Owed(std::size_t room = net::Peer::any) {
    if (room != net::Peer::any) client->takes_nothing();
    client->takes(room);
    replica = &proxy.upstream();
  }
  /// The answer arrives in a batch; then `next` happens in the same batch.
  void arrives(const std::string& body, const std::function<void()>& next) {
    InABatch(proxy, [&] {
      replica->says(whole_answer("200 OK", body));
      EXPECT_TRUE(replica->report());
      next();
    });
    proxy.run();
  }

  ScriptedProxy proxy{{[](net::Peer&) {}}};
  std::shared_ptr<net::Peer> client = proxy.asks(post(chat(false)));
  net::Peer* replica = nullptr;
};

TEST(AnswerOut, OfABatchGoesOutAtItsEndAndALongOneAtOnce) {
  for (const std::size_t size : {0U, 16'000U, 17'000U}) {
    Owed owed;
    const std::string body = size == 0 ? completion : R"({"choices":[{"text":")" + std::string(size, 'a') + "\"}]}";
    owed.arrives(body, [&] { EXPECT_EQ(owed.client->got.empty(), size < 17'000) << "others may have answers, too"; });
    EXPECT_EQ(read_answer(owed.client->got).body, body);
    EXPECT_THAT(owed.proxy.log_lines().back(), HasSubstr(R"("outcome":"ok)"));
    owed.proxy.hears(*owed.client, post(chat(false)));
    EXPECT_EQ(owed.proxy.connections[0].size(), 1u) << "the connection serves again";
  }
}

TEST(AnswerOut, OfABatchWhoseClientTakesItInPartsIsGoneOnWith) {
  Owed owed(100);
  owed.arrives(completion, [&] {
    owed.client->says("POST");
    EXPECT_TRUE(owed.client->report()) << "it is said to be writable, too";
    EXPECT_EQ(owed.client->got, "");
  });
  EXPECT_EQ(owed.client->got.size(), 100u);
  owed.proxy.tick_in(1);
  owed.client->takes(net::Peer::any);
  owed.proxy.run();
  EXPECT_EQ(read_answer(owed.client->got).body, completion);
  EXPECT_THAT(owed.proxy.log_lines().back(), HasSubstr(R"("outcome":"ok)"));
}

TEST(AnswerOut, OfABatchThatItsClientTakesInPartsLetsTheRequestGo) {
  ScriptedProxy proxy({[](net::Peer&) {}});
  const std::string text(100'000, 'a');
  const auto client = proxy.client(post(R"({"model":"m","messages":[{"role":"user","content":")" + text + "\"}]}"));
  client->takes_nothing();
  proxy.run();
  EXPECT_GE(proxy.shared.buffers.used(), 90'000u);
  InABatch(proxy, [&] {
    proxy.upstream().says(whole_answer("200 OK", completion));
    EXPECT_TRUE(proxy.upstream().report());
  });
  proxy.run();
  EXPECT_EQ(client->got, "");
  EXPECT_EQ(proxy.shared.buffers.used(), 0u) << "what is left of the answer is less than a step";
  client->takes(net::Peer::any);
  proxy.run();
  EXPECT_EQ(read_answer(client->got).body, completion);
}

TEST(AnswerOut, OfABatchTellsHowLongItsTokensWereKept) {
  ScriptedProxy proxy({[](net::Peer&) {}});
  const auto client = proxy.asks(post(chat(true)));
  InABatch(proxy, [&] {
    proxy.upstream().says(streamed_answer());
    EXPECT_TRUE(proxy.upstream().report());
    EXPECT_EQ(client->got, "");
  });
  proxy.run();
  EXPECT_TRUE(read_answer(client->got).whole);
  EXPECT_THAT(proxy.log_lines().back(), Not(HasSubstr(R"("overhead_max_s":null)")));
  EXPECT_THAT(proxy.log_lines().back(), HasSubstr(R"("overhead_max_s":)"));
}

TEST(AnswerOut, OfABatchWhoseClientLeavesInItIsAborted) {
  Owed owed;
  owed.arrives(completion, [&] {
    owed.client->breaks();
    EXPECT_TRUE(owed.client->report());
  });
  EXPECT_EQ(owed.client->got, "");
  EXPECT_THAT(owed.proxy.log_lines().back(), HasSubstr(R"("outcome":"client_abort")"));
  owed.proxy.expect_at_rest();
}

TEST(AnswerOut, OfABatchThatCannotBeWrittenEndsItsOwnAttemptAlone) {
  Owed owed;
  owed.proxy.calls.error = EPIPE;
  owed.arrives(completion, [&] { owed.proxy.calls.failing = owed.proxy.calls.made; });
  EXPECT_EQ(owed.client->got, "");
  EXPECT_THAT(owed.proxy.log_lines().back(), HasSubstr(R"("outcome":"client_abort")"));
  owed.proxy.expect_at_rest();
}

}  // namespace
}  // namespace weir::proxy::serve

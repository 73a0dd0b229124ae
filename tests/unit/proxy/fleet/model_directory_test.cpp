// Replicas that tell their models as the test has it: weir by learn(), clients on loopback.
#include "proxy/fleet/model_directory.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>
#include <functional>

namespace weir::proxy::fleet {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

PageAnswer answer_of(unsigned status, const std::string& body) { return {.status = status, .body = body}; }
const PageAnswer wants_a_key = answer_of(401, "{}");
PageAnswer list_of(const std::string& id) { return answer_of(200, R"({"data":[{"id":")" + id + R"("}]})"); }

/// A replica as clients find it. What it answers may change between two requests; the status 0 is no answer.
class Teller {
 public:
  Teller(asio::io_context& context, PageAnswer first)
      : answer(std::move(first)), acceptor_(context, {asio::ip::address_v4::loopback(), 0}) {
    accept();
  }
  std::uint16_t port() const { return acceptor_.local_endpoint().port(); }

  PageAnswer answer;
  std::vector<std::string> got;  ///< The requests.
  std::size_t left = 0;          ///< Connections that weir has closed.

 private:
  struct Connection {
    tcp::socket socket;
    std::string bytes{};
  };
  void accept() {
    acceptor_.async_accept([this](boost::system::error_code error, tcp::socket socket) {
      if (error) return;
      auto connection = std::make_shared<Connection>(Connection{std::move(socket)});
      asio::async_read_until(connection->socket, asio::dynamic_buffer(connection->bytes), "\r\n\r\n",
                             [this, connection](boost::system::error_code failed, std::size_t) {
                               if (failed) return void(++left);
                               got.push_back(std::exchange(connection->bytes, ""));
                               if (answer.status != 0) asio::write(connection->socket, asio::buffer(bytes()));
                               await_end(connection);
                             });
      accept();
    });
  }
  std::string bytes() const {
    return "HTTP/1.1 " + std::to_string(answer.status) +
           " X\r\nContent-Length: " + std::to_string(answer.body.size()) + "\r\n\r\n" + answer.body;
  }
  void await_end(const std::shared_ptr<Connection>& connection) {
    connection->socket.async_wait(tcp::socket::wait_read, [this, connection](boost::system::error_code) { ++left; });
  }
  tcp::acceptor acceptor_;
};

/// A client that asks for the models.
struct Client {
  explicit Client(std::string_view key = "", std::string_view path = "/v1/models") {
    head.method = "GET";
    head.path = head.target = path;
    if (!key.empty()) head.fields.push_back({"authorization", key});
  }
  http::RequestHead head;
  Halt halt;
  http::Route route = http::Route::models;
  const keys::ClientKey* weir_key = nullptr;
  std::optional<http::OwnAnswer> answer;
};

class Models : public testing::Test {
 protected:
  Models() { spdlog::set_level(spdlog::level::off); }
  ~Models() override { spdlog::set_level(log_level_); }
  config::Replica replica(const Teller& teller, std::string api_key = "") {
    config::Replica one;
    one.name = "gpu" + std::to_string(teller.port());
    one.url = {.host = "127.0.0.1", .port = teller.port(), .prefix = "", .authority = "gpu"};
    one.api_key = std::move(api_key);
    return one;
  }
  void begin(std::vector<config::Replica> replicas) {
    settings.pools.resize(1);
    settings.pools[0].name = "pool";
    settings.pools[0].replicas = std::move(replicas);
    fleet.emplace(settings, exposition, 1);
    directory.emplace(*fleet);
  }
  /// Begins with replicas that tell weir what they are about to tell clients.
  void begin_told(const std::vector<const Teller*>& tellers, const std::string& key_of_first = "") {
    std::vector<config::Replica> replicas;
    for (const auto* teller : tellers) replicas.push_back(replica(*teller, replicas.empty() ? key_of_first : ""));
    begin(std::move(replicas));
    for (std::size_t i = 0; i < tellers.size(); ++i) tell(i, tellers[i]->answer);
  }
  /// Has a replica tell weir.
  void tell(std::size_t replica, const PageAnswer& answer) {
    directory->learn(*fleet->snapshot()->pools.front()->replicas[replica], answer);
  }
  void run_until(const std::function<bool()>& done) {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!done() && std::chrono::steady_clock::now() < give_up) context.run_one_until(give_up);
    EXPECT_TRUE(done());
    poll();
  }
  void poll() {
    while (context.poll() > 0) {
    }
  }
  void ask(Client& client) {
    asio::co_spawn(context, directory->answer(client.head, client.route, client.halt, client.weir_key),
                   [&client](const std::exception_ptr&, http::OwnAnswer own) { client.answer = std::move(own); });
    poll();
  }
  http::OwnAnswer answer_to(Client client) {
    ask(client);
    run_until([&client] { return client.answer.has_value(); });
    return *client.answer;
  }

  asio::io_context context{1};
  metrics::series::Exposition exposition{1, {"0", "test"}};
  config::Settings settings;
  std::optional<Fleet> fleet;
  std::optional<ModelDirectory> directory;

 private:
  const spdlog::level::level_enum log_level_ = spdlog::get_level();
};

TEST_F(Models, AreThoseThatReplicasTell) {
  const Teller one(context, list_of("a")), other(context, list_of("b"));
  begin_told({&one, &other});
  EXPECT_THAT(answer_to(Client()).body, AllOf(HasSubstr(R"("id":"a")"), HasSubstr(R"("id":"b")")));
}

TEST_F(Models, OfReplicasThatAReloadTakesOutAreForgotten) {
  const Teller one(context, list_of("a")), other(context, list_of("b"));
  begin_told({&one, &other});
  settings.pools[0].replicas.pop_back();
  fleet->adopt(settings);
  directory->follow(fleet->snapshot());
  EXPECT_THAT(answer_to(Client()).body, AllOf(HasSubstr(R"("id":"a")"), Not(HasSubstr(R"("id":"b")"))));
}

TEST_F(Models, AreToldToThePoolWhichChoosesByThem) {
  const Teller one(context, list_of("a")), other(context, list_of("b"));
  begin_told({&one, &other});
  const auto snapshot = fleet->snapshot();
  const auto& pool = *snapshot->pools.front();
  // Counts how many of ten requests for the model the first replica gets.
  const auto of_first = [&](const std::string& model) {
    metrics::wire::RequestFacts facts;
    facts.model = model;
    std::vector<balancer::Offered> held;
    int first = 0;
    for (int i = 0; i < 10; ++i) {
      const balancer::PlacementRequest placement{std::make_shared<const metrics::wire::RequestFacts>(facts)};
      held.push_back(pool.balancer->offer(placement, std::chrono::steady_clock::now()));
      const auto* const admitted = std::get_if<balancer::Admitted>(&held.back());
      first += admitted != nullptr && admitted->lease.key() == pool.replicas.front()->key ? 1 : 0;
    }
    return first;
  };
  EXPECT_EQ(of_first("a"), 10);
  EXPECT_EQ(of_first("b"), 0);
  EXPECT_EQ(of_first("c"), 5);
  tell(0, wants_a_key);
  EXPECT_EQ(of_first("b"), 5) << "the first one's list is unknown now";
}

TEST_F(Models, StayKnownWhereAReplicaTellsNone) {
  const Teller teller(context, list_of("a"));
  begin_told({&teller});
  for (const auto& later : {answer_of(200, R"({"data":[]})"), answer_of(500, "{}"), PageAnswer()}) {
    tell(0, later);
    EXPECT_THAT(answer_to(Client()).body, HasSubstr(R"("id":"a")")) << later.status;
  }
}

TEST_F(Models, OfAReplicaThatWantsAKeyAreForTheClientThatHasIt) {
  Teller teller(context, wants_a_key);
  begin_told({&teller});
  EXPECT_EQ(answer_to(Client()).status, 401u);
  EXPECT_TRUE(teller.got.empty()) << "without a credential nobody is asked";
  teller.answer = list_of("a");
  EXPECT_THAT(answer_to(Client("Bearer mine")).body, HasSubstr(R"("id":"a")"));
  EXPECT_THAT(teller.got.back(), HasSubstr("authorization: Bearer mine\r\n"));
  EXPECT_EQ(answer_to(Client()).status, 401u) << "what it told is for that client alone";
}

TEST_F(Models, OfAReplicaThatRefusesWeirsOwnKeyAreNotAskedForWithAClients) {
  const Teller keyed(context, wants_a_key), open(context, list_of("a"));
  begin_told({&keyed, &open}, "wrong");
  EXPECT_THAT(answer_to(Client("Bearer mine")).body, HasSubstr(R"("id":"a")"));
  EXPECT_TRUE(keyed.got.empty());
}

TEST_F(Models, AreAskedForOnBehalfOfSixtyFourClientsAtATime) {
  Teller teller(context, wants_a_key);
  begin_told({&teller});
  teller.answer = {};
  for (int round = 0; round < 2; ++round) {
    std::vector<std::unique_ptr<Client>> clients;
    for (int i = 0; i < 64; ++i) ask(*clients.emplace_back(std::make_unique<Client>("Bearer mine")));
    for (const auto& client : clients) EXPECT_FALSE(client->answer) << "in round " << round;
    for (int i = 0; i < 10; ++i) {
      const auto refused = answer_to(Client("Bearer mine"));
      EXPECT_EQ(refused.status, 429u);
      EXPECT_EQ(refused.retry_after, std::chrono::seconds(1));
    }
    for (const auto& client : clients) client->halt.call();
    for (const auto& client : clients) run_until([&client] { return client->answer.has_value(); });
    run_until([&] { return teller.left == 64u * static_cast<unsigned>(round + 1); });
  }
}

TEST_F(Models, OfAClientThatHasLeftAreNotAskedFor) {
  const Teller teller(context, wants_a_key);
  begin_told({&teller});
  Client gone("Bearer mine");
  gone.halt.call();
  ask(gone);
  EXPECT_TRUE(gone.answer);
  EXPECT_TRUE(teller.got.empty());
}

}  // namespace
}  // namespace weir::proxy::fleet

// Bad requests of one client put out no replica that serves the others; a broken replica is out, whoever asks it.
#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "balancer/pool.hpp"
#include "requests.hpp"

namespace weir::balancer {
namespace {

/// The history of what replicas did with requests, and what the rule says of the last one.
class History {
 public:
  struct End {
    std::size_t replica;
    Sign sign;
    Caller caller;
    double now;
  };

  void add(const End& end) { all_.push_back(end); }

  /// The replica of the last end is to be ejected because of it.
  bool ejects() const {
    const End& last = all_.back();
    if (last.sign != Sign::failed) return false;
    std::vector<Client> row;
    bool is_over = false, serves_others = false;
    for (auto end = all_.rbegin(); end != all_.rend(); ++end) {
      if (end->replica != last.replica) continue;
      is_over = is_over || end->sign == Sign::answered || end->sign == Sign::client_error;
      if (!is_over && end->sign == Sign::failed) row.push_back(end->caller.client);
      const bool other = is_good(*end) && end->caller.client != last.caller.client;
      serves_others = serves_others || (other && last.now - end->now < 10);
    }
    if (row.size() < 5) return false;
    if (std::ranges::any_of(row, [&](Client client) { return !client || client != last.caller.client; })) return true;
    if (serves_others) return false;
    for (std::size_t peer = 0; peer < 8; ++peer)
      if (peer != last.replica && is_witness(peer, std::min<std::size_t>(row.size(), 20))) return true;
    return false;
  }

 private:
  static bool is_good(const End& end) { return end.sign == Sign::answered && end.caller.gives_work; }

  bool is_witness(std::size_t peer, std::size_t failures) const {
    const End& last = all_.back();
    double ends = 2, bad = 1;
    std::vector<Client> answered;
    bool answers_it = false;
    for (auto end = all_.rbegin(); end != all_.rend(); ++end) {
      if (end->replica != peer || last.now - end->now >= 60) continue;
      const bool good = is_good(*end);
      if (good && answered.size() < 2 && std::ranges::find(answered, end->caller.client) == answered.end()) {
        answered.push_back(end->caller.client);
        answers_it = answers_it || answered.back() == last.caller.client;
      }
      if ((!good && end->sign != Sign::failed) || ends >= 22) continue;
      ++ends;
      if (!good) ++bad;
    }
    return answers_it && std::pow(bad / ends, failures) < 1e-5;
  }

  std::vector<End> all_;
};

class FailedClientsOfAPool : public testing::Test {
 protected:
  void begin(std::size_t replicas) {
    std::vector<ReplicaSpec> specs;
    for (std::size_t i = 0; i < replicas; ++i) specs.push_back(replica(std::to_string(i)));
    pool = pool_of(specs);
    keys.clear();
    for (ReplicaIndex i = 0; i < replicas; ++i) keys.push_back(pool->figures().key(i));
  }
  void report(std::size_t replica, Sign sign, Client client, double now, bool gives_work = true) {
    pool->health().report(keys[replica], sign, at(now), {}, {client, gives_work});
  }
  bool is_out(std::size_t replica, double now) {
    return pool->health().of(keys[replica], at(now)).state == ReplicaState::ejected;
  }
  unsigned below(unsigned n) { return std::uniform_int_distribution(0U, n - 1)(random); }

  std::mt19937 random{11};
  std::shared_ptr<Pool> pool;
  std::vector<ReplicaKey> keys;
};

TEST_F(FailedClientsOfAPool, AreJudgedAsANaiveReaderOfAllThatHappenedJudges) {
  int ejected = 0, kept = 0;
  for (int round = 0; round < 600; ++round) {
    begin(2 + below(4));
    const unsigned clients = 1 + below(3), fails_percent = below(101), others_fail_percent = below(3) * below(40);
    const double step = std::array{0.01, 0.5, 3.0}[below(3)];
    History history;
    double now = 0;
    bool out = false;
    for (int i = 0; i < 150 && !out; ++i) {
      now += step * below(4);
      const std::size_t replica = below(static_cast<unsigned>(keys.size()));
      const bool fails = below(100) < (replica == 0 ? fails_percent : others_fail_percent);
      const Sign good = below(5) == 0 ? Sign::client_error : Sign::answered;
      const Sign sign = !fails ? good : below(6) == 0 ? Sign::absolved : Sign::failed;
      const unsigned whose = below(clients * 8);
      const Client client = whose == 1 ? Client() : Client(whose % clients);
      const bool gives_work = below(4) > 0;
      report(replica, sign, client, now, gives_work);
      history.add({replica, sign, {client, gives_work}, now});
      out = is_out(replica, now);
      ASSERT_EQ(out, history.ejects()) << "round " << round << ", end " << i;
    }
    (out ? ejected : kept)++;
  }
  EXPECT_GT(ejected, 100);
  EXPECT_GT(kept, 100);
}

// All of the bad ones may go to one replica, by chance or on purpose.
TEST_F(FailedClientsOfAPool, OneOfThemEjectsNoReplicaThatServesOthers) {
  constexpr std::uint64_t bad_client = 99;
  for (int round = 0; round < 200; ++round) {
    begin(2 + below(4));
    const unsigned bad_percent = 50 + below(51);
    const bool apart = below(2) == 0;
    std::vector<double> served(keys.size(), 0);
    double now = 0;
    for (std::size_t i = 0; i < keys.size(); ++i) report(i, Sign::answered, 1, now);
    for (int i = 0; i < 500; ++i) {
      now += 0.1 * below(4);
      for (std::size_t other = 0; other < keys.size(); ++other)
        if (now - served[other] > 9) report(other, Sign::answered, 1 + below(3), served[other] = now);
      const std::size_t replica = apart ? 0 : below(static_cast<unsigned>(keys.size()));
      const Sign bad = std::array{Sign::failed, Sign::failed_alone, Sign::absolved}[below(3)];
      report(replica, below(100) < bad_percent ? bad : Sign::answered, bad_client, now);
    }
    for (std::size_t i = 0; i < keys.size(); ++i) ASSERT_FALSE(is_out(i, now)) << "round " << round;
  }
}

// Behind a gateway all requests are one client's. Those that no replica can answer fail everywhere.
TEST_F(FailedClientsOfAPool, ThatAreOneInAllEjectTheReplicaThatFailsWhereItsPeersDoNot) {
  for (const unsigned bad_percent : {0u, 10u, 30u}) {
    begin(3);
    int failed = 0;
    bool out = false;
    for (double now = 0; now < 9 && !out; now += 0.1) {
      for (std::size_t i = 1; i < 3; ++i) report(i, below(100) < bad_percent ? Sign::failed : Sign::answered, 7, now);
      report(0, Sign::failed, 7, now);
      ++failed;
      out = is_out(0, now);
      EXPECT_FALSE(is_out(1, now) || is_out(2, now));
    }
    EXPECT_TRUE(out) << bad_percent;
    EXPECT_LT(failed, bad_percent == 0 ? 7 : 20) << bad_percent;
  }
  begin(3);
  for (int i = 0; i < 3000; ++i) report(below(3), Sign::failed, 7, i * 0.01);
  for (const auto& told : pool->health().take_changes(at(30)))
    EXPECT_NE(told.change.to, ReplicaState::ejected) << "all fail";
}

// A broken engine may still answer requests that need no inference, and refuse wrong ones.
TEST_F(FailedClientsOfAPool, AreTheReplicasWhereOthersGetNoWorkDone) {
  for (const bool refused : {true, false}) {
    begin(3);
    int failed = 0;
    for (double now = 0; now < 60 && !is_out(0, now); now += 0.1) {
      for (std::size_t i = 1; i < 3; ++i) report(i, Sign::answered, 7, now);
      if (++failed % 90 == 1) report(0, refused ? Sign::client_error : Sign::answered, 8, now, refused);
      report(0, Sign::failed, 7, now);
    }
    EXPECT_LT(failed, 8) << (refused ? "a wrong request" : "a route without inference");
  }
}

TEST_F(FailedClientsOfAPool, AreTheReplicasWhereOnePeerAnswersThemThoughMostAreBroken) {
  for (const std::size_t broken : {1u, 2u, 3u}) {
    begin(4);
    int failed = 0;
    std::size_t out = 0;
    for (double now = 0; now < 60 && out == 0; now += 0.5) {
      if (failed % 10 == 0) report(3, Sign::answered, 7, now);  // It is slow and good.
      for (std::size_t i = 0; i < broken; ++i) report(i, Sign::failed, 7, now);
      ++failed;
      for (std::size_t i = 0; i < broken; ++i) out += is_out(i, now) ? 1 : 0;
    }
    EXPECT_GT(out, 0u) << broken;
    EXPECT_LT(failed, 12) << broken;
    EXPECT_FALSE(is_out(3, 60));
  }
}

// Another client's requests fail everywhere. They hide no broken replica.
TEST_F(FailedClientsOfAPool, AreTheReplicasBesideRequestsThatNoReplicaCanAnswer) {
  begin(3);
  int failed = 0;
  for (double now = 0; now < 60 && !is_out(0, now); now += 0.1) {
    for (std::size_t i = 0; i < 3; ++i) report(i, Sign::absolved, 99, now);
    for (std::size_t i = 1; i < 3; ++i) report(i, Sign::answered, 7, now);
    report(0, Sign::failed, 7, now);
    ++failed;
  }
  EXPECT_LT(failed, 8);
}

TEST_F(FailedClientsOfAPool, AreForgottenWhenTheReplicaIsBack) {
  begin(2);
  for (const Client client : {1, 2, 2, 2, 2}) report(0, Sign::failed, client, 1);
  EXPECT_TRUE(is_out(0, 1));
  for (int i = 0; i < 5; ++i) report(0, Sign::failed, 3, 12);
  EXPECT_FALSE(is_out(0, 12)) << "two had seen the failures of before";
  report(0, Sign::failed, 4, 12);
  EXPECT_TRUE(is_out(0, 12));
}

}  // namespace
}  // namespace weir::balancer

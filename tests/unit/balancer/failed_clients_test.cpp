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

class FailedClientsOfAPool : public PoolWithKeys {
 protected:
  void report(std::size_t replica, Sign sign, Client client, double now, bool gives_work = true) {
    pool->health().report(keys[replica], sign, at(now), {}, {client, gives_work});
  }
  bool is_out(std::size_t replica, double now) { return state(replica, now) == ReplicaState::ejected; }
  unsigned below(unsigned n) { return std::uniform_int_distribution(0U, n - 1)(random); }

  std::mt19937 random{11};
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

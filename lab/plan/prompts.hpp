// Makes requests whose prompts are messages: their bodies, which weir reads, and the same tokens as engines see them.
//
// Prompts are messages whose text is made from numbers: the same number is the same text, for weir as for the engines,
// which get blocks of the same numbers. A chat template adds its tokens as in lab/sim, so that a turn's prompt goes on
// as its parent and its answer did. Texts are a third shorter than their tokens suggest, and uneven: see requests_of().
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lab/engine/random.hpp"
#include "lab/plan/traffic.hpp"

namespace weir::lab::plan {

using engine::Random;

enum class Role : std::uint8_t { system, user, assistant };

/// A text by its number. The same number is the same text of the same length.
struct Message {
  Role role = Role::user;
  std::uint64_t text = 0;
  std::uint64_t tokens = 1;
};

/// Gathers the requests of a workload.
class Maker {
 public:
  explicit Maker(std::uint64_t seed) : random(seed), seed_(seed) {}

  Random random;
  /// Every request allows so many tokens of output, so weir is not told how long an answer will be.
  std::uint64_t max_tokens = 1024;

  Message message(Role role, std::uint64_t tokens) { return {role, ++texts_, std::max<std::uint64_t>(1, tokens)}; }
  std::uint64_t new_session() { return ++sessions_; }

  struct Turn {
    std::uint64_t session = 0;
    std::string salt{};
    std::uint64_t thoughts = 0;  ///< Tokens of the answer that no later prompt repeats.
    std::optional<std::size_t> parent{};
    double think = 0;
  };
  /// Adds a request that is answered by `answer`, and returns its place.
  std::size_t add(double at, const Turn& turn, std::span<const Message> messages, const Message& answer);

  std::vector<TracedRequest> requests;

 private:
  const std::string& words_of(const Message& message);
  std::string body_of(std::span<const Message> messages, const std::string& salt);

  std::uint64_t seed_;
  std::uint64_t texts_ = 0, sessions_ = 0;
  std::unordered_map<std::uint64_t, std::string> words_;
};

/// Returns a length around this median. `sigma` is the deviation of its logarithm.
std::uint64_t about(Random& random, double median, double sigma, double least, double most);

/// A conversation whose turns follow each other.
class Conversation {
 public:
  Conversation(Maker& maker, double at, std::vector<Message> before, Maker::Turn turn)
      : maker_(maker), at_(at), messages_(std::move(before)), turn_(std::move(turn)) {
    if (turn_.session == 0) turn_.session = maker.new_session();
  }
  /// Says something, and returns the place of the request.
  std::size_t say(std::uint64_t tokens, std::uint64_t answer_tokens, double think = 0) {
    messages_.push_back(maker_.message(Role::user, tokens));
    const Message answer = maker_.message(Role::assistant, answer_tokens);
    turn_.think = think;
    turn_.parent = maker_.add(at_, turn_, messages_, answer);
    messages_.push_back(answer);
    return *turn_.parent;
  }
  const std::vector<Message>& messages() const { return messages_; }
  double at() const { return at_; }

 private:
  Maker& maker_;
  double at_;
  std::vector<Message> messages_;
  Maker::Turn turn_;
};

/// Makes requests come one a second, by Poisson; those with a parent come with it.
class Arrivals {
 public:
  double next(Random& random, double requests) { return at_ += requests * random.exponential(); }

 private:
  double at_ = 0;
};

}  // namespace weir::lab::plan

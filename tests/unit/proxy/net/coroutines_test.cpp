// The compiler keeps each value of a coroutine once: none is lost across a co_await, and none is released twice.
//
// g++ 12 miscompiles nearly all of these shapes, at -O0 and -O2 alike and without a warning, and so CMakeLists.txt
// refuses it. clang 14 loses what was made of an aggregate when its coroutine is abandoned.
#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "proxy/net/channel.hpp"

namespace weir::proxy::net {
namespace {

struct Values {
  std::set<const void*> alive;
  int wrong = 0;  // Values that began where one was alive, or ended where none was.
} values;

/// Its own memory shows a second release to AddressSanitizer, too.
class Value {
 public:
  Value(int n) : n_(std::make_unique<int>(n)) { begin(); }
  Value(const Value& other) : Value(other.number()) {}
  Value(Value&& other) noexcept : n_(std::move(other.n_)) { begin(); }
  Value& operator=(const Value&) = delete;
  ~Value() { values.wrong += values.alive.erase(this) != 1; }
  int number() const { return values.alive.contains(this) && n_ ? *n_ : -1000; }

 private:
  void begin() { values.wrong += !values.alive.insert(this).second; }
  std::unique_ptr<int> n_;
};

struct Options {
  Value first{1};
  std::string text = "longer than what a string keeps in itself";
  std::optional<Value> second{};
  int sum() const { return first.number() + (second ? second->number() : 0); }
};

// Awaited coroutines answer at once, or suspend first: so many times, and then forever.
std::optional<int> suspensions;

Awaitable<void> pause() {
  if (!suspensions) co_return;
  const auto executor = co_await boost::asio::this_coro::executor;
  if ((*suspensions)-- > 0) {
    co_await boost::asio::post(executor, use_awaitable);
    co_return;
  }
  boost::asio::steady_timer never(executor, boost::asio::steady_timer::time_point::max());
  co_await never.async_wait(use_awaitable);
}
Awaitable<Value> give(int n) {
  co_await pause();
  co_return Value{n};
}
Awaitable<int> take(Value value) {
  co_await pause();
  co_return value.number();
}
Awaitable<int> sum(Options options = {}, std::vector<Value> more = {1, 2}) {
  co_await pause();
  co_return options.sum() + static_cast<int>(more.size());
}
Awaitable<int> sum_there(const Options& options) {
  co_await pause();
  co_return options.sum();
}
template <class Function>
Awaitable<int> call(Function function) {
  co_await pause();
  co_return function();
}
Awaitable<Value> fail(Value value) {
  co_await pause();
  if (value.number() > 0) throw std::runtime_error("as told");
  co_return value;
}

// Conditions, in coroutines without a variable.
Awaitable<int> if_awaited() {
  if (co_await take(Value{3}) == 3 && (co_await give(1)).number() == 1) co_return 1;
  co_return 0;
}
Awaitable<int> while_awaited(int n) {
  while (co_await take(Value{n}) < 5) ++n;
  co_return n;
}
Awaitable<int> switch_awaited() {
  switch (co_await take(Value{3})) {
    case 3:
      co_return co_await take(4);
    default:
      co_return 0;
  }
}
Awaitable<int> for_awaited() {
  int n = 0;
  for (const Value& value : std::vector<Value>{co_await give(1), 2}) n += co_await take(value);
  co_return n;
}
// Conditional expressions.
Awaitable<int> choice_of_arguments(int n) { co_return co_await take(n > 2 ? Value{n} : Value{1}); }
Awaitable<int> choice_of_calls(int n) { co_return co_await (n > 2 ? take(Value{n}) : take(Value{1})); }
Awaitable<int> choice_of_results(int n) {
  const Value value = n > 2 ? co_await give(n) : co_await give(1);
  co_return value.number();
}
// Braces.
Awaitable<int> braces(int n) { co_return co_await sum({n, std::string(40, 'x'), Value{1}}, {n}); }
Awaitable<int> braces_by_reference(int n) { co_return co_await sum_there({.first = n, .second = Value{n}}); }
Awaitable<int> braces_around() {
  co_return co_await sum_there({co_await give(1), std::string(40, 'x'), co_await give(2)});
}
Awaitable<int> list_around() { co_return co_await sum({}, {1, co_await give(1), co_await give(2)}); }
// Lambdas that capture.
Awaitable<int> lambda(Value value) {
  co_return co_await call([value, text = std::string(40, 'x')] { return text.size() == 40 ? value.number() : 0; });
}
Awaitable<int> lambda_around(int n) {
  co_return co_await call([value = co_await give(n)] { return value.number(); });
}
Awaitable<int> lambda_awaits(int n) {
  co_return co_await [value = Value{n}]() -> Awaitable<int> {
    co_await pause();
    co_return value.number();
  }();
}
// Exceptions beside values.
Awaitable<int> throw_or(int n) {
  const Value value = n < 2 ? co_await give(1) : throw std::runtime_error("as told");
  co_return value.number();
}
Awaitable<int> throw_in_braces() {
  co_return co_await sum_there({co_await give(1), std::string(40, 'x'), co_await fail(1)});
}
Awaitable<int> throw_in_list() { co_return co_await sum({}, {1, co_await give(2), co_await fail(1)}); }
Awaitable<int> throw_caught() {
  try {
    co_await take(co_await fail(1));
  } catch (const std::runtime_error&) {
    co_return 1;
  }
  co_return 0;
}
// Default arguments.
Awaitable<int> defaults() { co_return co_await sum() + co_await sum({2}); }

struct Shape {
  std::string name;
  std::function<Awaitable<int>()> begin;
  std::optional<int> result;  // Nothing: an exception.
};
const Shape shapes[] = {
    {"if", if_awaited, 1},
    {"while", [] { return while_awaited(3); }, 5},
    {"switch", switch_awaited, 4},
    {"for", for_awaited, 3},
    {"choice_of_arguments", [] { return choice_of_arguments(3); }, 3},
    {"choice_of_calls", [] { return choice_of_calls(3); }, 3},
    {"choice_of_results", [] { return choice_of_results(3); }, 3},
    {"braces", [] { return braces(3); }, 5},
    {"braces_by_reference", [] { return braces_by_reference(3); }, 6},
    {"braces_around", braces_around, 3},
    {"list_around", list_around, 4},
    {"lambda", [] { return lambda(3); }, 3},
    {"lambda_around", [] { return lambda_around(3); }, 3},
    {"lambda_awaits", [] { return lambda_awaits(3); }, 3},
    {"throw", [] { return throw_or(3); }, {}},
    {"throw_in_braces", throw_in_braces, {}},
    {"throw_in_list", throw_in_list, {}},
    {"throw_caught", throw_caught, 1},
    {"defaults", defaults, 7},
};

/// Plays a shape on a loop that then ends. Returns whether the shape came to its end before that.
bool play(const Shape& shape) {
  values = {};
  bool ended = false;
  {
    boost::asio::io_context io{1};
    boost::asio::co_spawn(io.get_executor(), shape.begin(), [&](const std::exception_ptr& error, int result) {
      ended = true;
      EXPECT_EQ(error ? std::optional<int>() : result, shape.result);
    });
    io.poll();
  }
  EXPECT_EQ(values.wrong, 0);
  EXPECT_TRUE(values.alive.empty());
  return ended;
}

TEST(Coroutines, KeepEachValueOnce) {
  for (const Shape& shape : shapes) {
    SCOPED_TRACE(shape.name);
    suspensions.reset();
    EXPECT_TRUE(play(shape)) << "without a suspension";
    suspensions = std::numeric_limits<int>::max();
    EXPECT_TRUE(play(shape)) << "with suspensions";
  }
}

TEST(Coroutines, ReleaseEachValueWhereverTheyAreAbandoned) {
  for (const Shape& shape : shapes) {
    SCOPED_TRACE(shape.name);
    bool ended = false;
    for (int before = 0; !ended; ++before) {
      ASSERT_LT(before, 100);
      suspensions = before;
      ended = play(shape);
    }
  }
}

}  // namespace
}  // namespace weir::proxy::net

// Asks a replica for a page of its own, on a connection of its own, without blocking: the watcher and the model
// directory use it. `weir check --probe` and weir's own commands wait for their answers.
#pragma once

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "proxy/fleet/question.hpp"
#include "proxy/fleet/replica_stream.hpp"
#include "proxy/fleet/snapshot.hpp"
#include "proxy/net/awaitable.hpp"

namespace weir::proxy::fleet {

struct PageAnswer {
  unsigned status = 0;  ///< 0 if there was no whole answer.
  std::string body;
  std::string why_none{};  ///< A clause, if a connection came about and no whole answer: "its answer is too long".
  bool begun = false;      ///< Its head came.
};

/// Keeps a page whole. A longer page than `longest` is no answer.
class PageReader final : public AnswerReader {
 public:
  PageReader(PageAnswer& page, std::size_t longest) : page_(page), longest_(longest) {}
  void head(const http::ResponseHead& head, metrics::Moment, metrics::Moment) override {
    status_ = head.status;
    page_.begun = true;
  }
  bool body(std::span<const char> bytes, metrics::Moment) override {
    page_.body.append(bytes.data(), bytes.size());
    return page_.body.size() <= longest_;
  }
  void end(bool whole, bool, metrics::Moment) override { page_.status = whole ? status_ : 0; }

 private:
  PageAnswer& page_;
  std::size_t longest_;
  unsigned status_ = 0;
};

/// Reads the answer to what was written on a stream. Returns nothing if the stream failed: it says why.
net::Awaitable<std::optional<QuestionResult>> read_answer(ReplicaStream& stream, AnswerReader& reader);

/// Runs a coroutine to its end on a context that nothing else runs, and returns its result. What it throws is thrown.
template <class Result>
Result wait_for(boost::asio::io_context& context, net::Awaitable<Result> coroutine) {
  std::optional<Result> result;
  boost::asio::co_spawn(context, std::move(coroutine), [&](const std::exception_ptr& failure, Result returned) {
    if (failure) std::rethrow_exception(failure);
    result = std::move(returned);
  });
  while (!result) context.run_one();  // The wait of the streams' poller does not end by itself.
  return *std::move(result);
}

/// `limit` is for all of it. An answer of more than `longest` bytes is none. On the thread of the caller's executor.
net::Awaitable<PageAnswer> ask_for_page(std::shared_ptr<const Replica> replica, Question question,
                                        std::chrono::steady_clock::duration limit, std::size_t longest);

}  // namespace weir::proxy::fleet

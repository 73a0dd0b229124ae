// Is told what an answer says, in the order in which it comes, with JSON's escapes undone. The pieces may be cut
// anywhere. A stream and a whole answer that say the same tell the same.
#pragma once

#include <string_view>

namespace weir::metrics::wire {

class ContentListener {
 public:
  virtual ~ContentListener() = default;

  virtual void text(std::string_view piece) = 0;
  /// Brings reasoning that has a member of its own beside the text: engines write the two in either order. Reasoning
  /// that is one item or block among others (Responses, Anthropic) is text.
  virtual void reasoning(std::string_view piece) = 0;

  // A call begins with the first of these two, in either order.
  virtual void call_name(std::string_view piece) = 0;
  virtual void call_arguments(std::string_view piece) = 0;  ///< JSON. A call without any has the arguments {}.
  virtual void end_call() = 0;                              ///< Says nothing where no call has begun.

  virtual void lost_text() = 0;   ///< Text that was told has been taken back.
  virtual void lost_calls() = 0;  ///< A call could not be read.
};

}  // namespace weir::metrics::wire

"""loadsheet: spreadsheets in, orders and tenders out, and a report that balances.

    inbox -> reading -> mapping -> ledger -> dispatch -> reconcile -> reports

`pipeline` shows the stages in order; `contract` holds the interface they all speak; `exchange` is the other side of it. The public
face is the command line (`loadsheet --help`); importing this package does nothing.
"""

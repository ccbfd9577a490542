nf replay nowhere
